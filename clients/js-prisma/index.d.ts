import type { Raindrop } from '@example/raindrop';

/** For each model, by its name in the schema: the code of its IDs, and the field if it is not `id`. */
export type Models = Record<string, string | { code: string; field?: string }>;

/** Leaves the types of a client as they are. */
export interface Unchanged {
  $extends: { extArgs: { result: {}; model: {}; query: {}; client: {} } };
}

/**
 * Returns an extension for `$extends` that gives new records an ID from Raindrop, nested ones as well.
 *
 * A field of type `BigInt` gets the ID, one of type `String` its decimal text with the code's prefix.
 * A record that has an ID keeps it.
 */
export function raindropIds(raindrop: Raindrop, models: Models): (prisma: any) => Unchanged;
