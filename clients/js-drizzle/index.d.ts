import type { CallOptions, Raindrop } from '@example/raindrop';
import type { InferInsertModel, Table } from 'drizzle-orm';

/**
 * Gives rows of Drizzle an ID from Raindrop.
 *
 * Drizzle's default functions cannot wait, so `fill` draws the IDs before an insert.
 */
export class RaindropIds {
  constructor(raindrop: Raindrop);

  /**
   * Returns a function for `$defaultFn` of a bigint column with mode `bigint`. It returns an ID that
   * is in memory. It throws if there is none, and for a column of another type.
   */
  bigint(code: string): () => bigint;

  /** Returns a function for `$defaultFn` of a text column. It only marks the column for `fill`: called, it throws. */
  text(code: string): () => string;

  /**
   * Returns copies of rows that have IDs in each column that needs one, ascending in the rows' order.
   * A row that has an ID keeps it. Takes at most the client's `maxRange` rows. Throws if a column does
   * not fit its default, and if no column has a default of this `RaindropIds`.
   */
  fill<T extends Table>(
    table: T,
    rows: InferInsertModel<T>[],
    options?: CallOptions,
  ): Promise<InferInsertModel<T>[]>;
}
