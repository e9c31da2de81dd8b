import type { Raindrop } from '@example/raindrop';

/**
 * The code of the IDs of each model, by the name of the model; their field, if not `id`; and whether the
 * field, a String, gets UUIDs.
 */
export type Models = Record<string, string | { code: string; field?: string; uuid?: boolean }>;

/** Leaves the types of a client as they are. */
export interface Unchanged {
  $extends: { extArgs: { result: {}; model: {}; query: {}; client: {} } };
}

/** Where the records of a model have their ID. */
interface IdField {
  code: string;
  field: string;
  draw: Draw;
}

/** The method of the client that draws the IDs of a field. */
type Draw = 'nextMany' | 'nextTextMany' | 'nextUuidMany';

/** What Prisma says about a field of a model, as far as it matters here. */
interface Field {
  name: string;
  kind: string;
  type: string;
}

/** By model, then by name. */
type Fields = Record<string, Map<string, Field>>;

/** The arguments of a write, or a record in them. */
type Data = Record<string, any>;

/** A record that has no ID yet. */
interface Missing {
  record: Data;
  field: string;
  draw: Draw;
}

type Write = 'create' | 'update';

// The operations that can create records, with the arguments that hold these or nested ones.
const WRITES: Record<string, Record<string, Write>> = {
  create: { data: 'create' },
  createMany: { data: 'create' },
  createManyAndReturn: { data: 'create' },
  update: { data: 'update' },
  upsert: { create: 'create', update: 'update' },
};

/**
 * Returns an extension for `$extends` that gives new records an ID from Raindrop, nested ones as well.
 *
 * A field of type `BigInt` gets the ID, one of type `String` its decimal text with the code's prefix.
 * A record that has an ID keeps it.
 */
export function raindropIds(raindrop: Raindrop, models: Models): (prisma: any) => Unchanged {
  return (prisma) => {
    // Prisma tells extensions nothing else about relations, without which nested writes cannot be found.
    const fieldsOf = readFields(prisma._runtimeDataModel);
    const idOf: Record<string, IdField> = Object.fromEntries(
      Object.entries(models).map(([model, given]) => [
        model,
        readId(model, given, fieldsOf[model]),
      ]),
    );

    async function $allOperations({ model, operation, args, query }: Operation) {
      const writes = Object.hasOwn(WRITES, operation) ? WRITES[operation] : undefined;
      if (writes === undefined) return query(args);
      const copy = new Copy(idOf, fieldsOf);
      const filled = { ...args };
      for (const [name, kind] of Object.entries(writes)) {
        if (args?.[name] !== undefined)
          filled[name] = copy.each(args[name], (record) => copy[kind](model, record));
      }
      await Promise.all([...copy.missing].map(([code, records]) => fill(raindrop, code, records)));
      return query(filled);
    }

    return prisma.$extends({ name: 'raindrop', query: { $allModels: { $allOperations } } });
  };
}

interface Operation {
  model: string;
  operation: string;
  args: Data | undefined;
  query: (args: Data | undefined) => Promise<unknown>;
}

function readFields(dataModel: { models?: Record<string, { fields: Field[] }> }): Fields {
  if (dataModel?.models === undefined)
    throw new Error('this version of Prisma does not tell extensions about the models');
  return Object.fromEntries(
    Object.entries(dataModel.models).map(([model, { fields }]) => [
      model,
      new Map(fields.map((field) => [field.name, field])),
    ]),
  );
}

function readId(
  model: string,
  given: Models[string],
  fields: Map<string, Field> | undefined,
): IdField {
  if (fields === undefined) throw new Error(`models: the schema has no model ${model}`);
  const { code, field = 'id', uuid = false } = typeof given === 'string' ? { code: given } : given;
  const type = fields.get(field)?.type;
  if (type !== 'BigInt' && type !== 'String') {
    throw new Error(
      `models: ${model}.${field} is ${type ?? 'missing'}, but BigInt or String is needed`,
    );
  }
  if (uuid && type === 'BigInt')
    throw new Error(`models: ${model}.${field} is BigInt, but a UUID needs String`);
  const draw = type === 'BigInt' ? 'nextMany' : uuid ? 'nextUuidMany' : 'nextTextMany';
  return { code, field, draw };
}

/** Copies the arguments of a write, and collects the records that have no ID. */
class Copy {
  /** By code. */
  missing = new Map<string, Missing[]>();
  #idOf: Record<string, IdField>;
  #fieldsOf: Fields;

  constructor(idOf: Record<string, IdField>, fieldsOf: Fields) {
    this.#idOf = idOf;
    this.#fieldsOf = fieldsOf;
  }

  /** Applies a function to one or each of many, as Prisma takes both. */
  each(given: Data | Data[], change: (one: Data) => Data): Data | Data[] {
    return Array.isArray(given) ? given.map(change) : change(given);
  }

  create(model: string, data: Data): Data {
    const record: Data = { ...data };
    const id = this.#idOf[model];
    if (id !== undefined && record[id.field] === undefined) {
      const { code, ...rest } = id;
      const missing = this.missing.get(code) ?? [];
      missing.push({ record, ...rest });
      this.missing.set(code, missing);
    }
    return Object.assign(record, this.#relations(model, data));
  }

  update(model: string, data: Data): Data {
    return { ...data, ...this.#relations(model, data) };
  }

  /** Returns copies of the fields that write to other models. */
  #relations(model: string, data: Data | undefined): Data {
    const fields = this.#fieldsOf[model];
    const written = Object.entries(data ?? {}).filter(([name, value]) => {
      return typeof value === 'object' && value !== null && fields?.get(name)?.kind === 'object';
    });
    return Object.fromEntries(
      written.map(([name, value]) => [name, this.#nested(fields!.get(name)!.type, value)]),
    );
  }

  #nested(model: string, writes: Data): Data {
    const create = (data: Data) => this.create(model, data);
    const update = (data: Data) => this.update(model, data);
    const changes: Record<string, (given: Data) => Data> = {
      create,
      createMany: (given) => ({ ...given, data: this.each(given.data, create) }),
      connectOrCreate: (given) => ({ ...given, create: create(given.create) }),
      upsert: (given) => ({ ...given, create: create(given.create), update: update(given.update) }),
      // A relation to one may be given without `where` and `data`.
      update: (given) =>
        isWrapped(given) ? { ...given, data: update(given.data) } : update(given),
    };
    const copy = { ...writes };
    for (const [name, change] of Object.entries(changes)) {
      if (copy[name] !== undefined) copy[name] = this.each(copy[name], change);
    }
    return copy;
  }
}

function isWrapped(given: Data): boolean {
  return (
    typeof given.data === 'object' &&
    Object.keys(given).every((key) => key === 'where' || key === 'data')
  );
}

/** Gives records IDs of a code, ascending in their order for each type of field. */
async function fill(raindrop: Raindrop, code: string, records: Missing[]): Promise<void> {
  const draws: Draw[] = ['nextMany', 'nextTextMany', 'nextUuidMany'];
  await Promise.all(
    draws.map(async (draw) => {
      const drawn = records.filter((record) => record.draw === draw);
      if (drawn.length === 0) return;
      const ids = await raindrop[draw](code, drawn.length);
      drawn.forEach(({ record, field }, i) => (record[field] = ids[i]));
    }),
  );
}
