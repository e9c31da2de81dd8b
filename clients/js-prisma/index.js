// The operations that can create records, with the arguments that hold these or nested ones.
const WRITES = {
  create: { data: 'create' },
  createMany: { data: 'create' },
  createManyAndReturn: { data: 'create' },
  update: { data: 'update' },
  upsert: { create: 'create', update: 'update' },
};

/**
 * Returns an extension for `$extends` that gives new records an ID from Raindrop, nested ones as well.
 *
 * @param {import('@example/raindrop').Raindrop} raindrop
 * @param {import('./index.d.ts').Models} models
 */
export function raindropIds(raindrop, models) {
  return (prisma) => {
    // Prisma tells extensions nothing else about relations, without which nested writes cannot be found.
    const fieldsOf = readFields(prisma._runtimeDataModel);
    const ids = Object.entries(models).map(([model, given]) => [
      model,
      readId(model, given, fieldsOf[model]),
    ]);
    const idOf = Object.fromEntries(ids);

    async function $allOperations({ model, operation, args, query }) {
      if (!Object.hasOwn(WRITES, operation)) return query(args);
      const copy = new Copy(idOf, fieldsOf);
      const filled = { ...args };
      for (const [name, kind] of Object.entries(WRITES[operation])) {
        if (args?.[name] !== undefined)
          filled[name] = copy.each(args[name], (record) => copy[kind](model, record));
      }
      await Promise.all([...copy.missing].map(([code, records]) => fill(raindrop, code, records)));
      return query(filled);
    }

    return prisma.$extends({ name: 'raindrop', query: { $allModels: { $allOperations } } });
  };
}

function readFields(dataModel) {
  if (dataModel?.models === undefined)
    throw new Error('this version of Prisma does not tell extensions about the models');
  return Object.fromEntries(
    Object.entries(dataModel.models).map(([model, { fields }]) => [
      model,
      new Map(fields.map((field) => [field.name, field])),
    ]),
  );
}

function readId(model, given, fields) {
  if (fields === undefined) throw new Error(`models: the schema has no model ${model}`);
  const { code, field = 'id' } = typeof given === 'string' ? { code: given } : given;
  const { type } = fields.get(field) ?? {};
  if (type !== 'BigInt' && type !== 'String') {
    throw new Error(
      `models: ${model}.${field} is ${type ?? 'missing'}, but BigInt or String is needed`,
    );
  }
  return { code, field, isText: type === 'String' };
}

/** Copies the arguments of a write, and collects the records that have no ID. */
class Copy {
  /** @type {Map<string, {record: object, field: string, isText: boolean}[]>} by code */
  missing = new Map();
  #idOf;
  #fieldsOf;

  constructor(idOf, fieldsOf) {
    this.#idOf = idOf;
    this.#fieldsOf = fieldsOf;
  }

  /** Applies a function to one or each of many, as Prisma takes both. */
  each(given, change) {
    return Array.isArray(given) ? given.map(change) : change(given);
  }

  create(model, data) {
    const record = { ...data };
    const id = this.#idOf[model];
    if (id !== undefined && record[id.field] === undefined) {
      const { code, ...rest } = id;
      if (!this.missing.has(code)) this.missing.set(code, []);
      this.missing.get(code).push({ record, ...rest });
    }
    return Object.assign(record, this.#relations(model, data));
  }

  update(model, data) {
    return { ...data, ...this.#relations(model, data) };
  }

  /** Returns copies of the fields that write to other models. */
  #relations(model, data) {
    const fields = this.#fieldsOf[model];
    const written = Object.entries(data ?? {}).filter(([name, value]) => {
      return typeof value === 'object' && value !== null && fields.get(name)?.kind === 'object';
    });
    return Object.fromEntries(
      written.map(([name, value]) => [name, this.#nested(fields.get(name).type, value)]),
    );
  }

  #nested(model, writes) {
    const create = (data) => this.create(model, data);
    const update = (data) => this.update(model, data);
    const changes = {
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

function isWrapped(given) {
  return (
    typeof given.data === 'object' &&
    Object.keys(given).every((key) => key === 'where' || key === 'data')
  );
}

/** Gives records IDs of a code, ascending in their order. */
async function fill(raindrop, code, records) {
  const texts = records.filter(({ isText }) => isText);
  const numbers = records.filter(({ isText }) => !isText);
  const [textIds, ids] = await Promise.all([
    texts.length > 0 ? raindrop.nextTextMany(code, texts.length) : [],
    numbers.length > 0 ? raindrop.nextMany(code, numbers.length) : [],
  ]);
  texts.forEach(({ record, field }, i) => (record[field] = textIds[i]));
  numbers.forEach(({ record, field }, i) => (record[field] = ids[i]));
}
