import { getTableColumns, getTableName } from 'drizzle-orm';

/**
 * Gives rows of Drizzle an ID from Raindrop.
 *
 * Drizzle's default functions cannot wait, so `fill` draws the IDs before an insert.
 */
export class RaindropIds {
  #raindrop;
  /** @type {WeakMap<() => unknown, string>} */
  #codes = new WeakMap();

  /** @param {import('@example/raindrop').Raindrop} raindrop */
  constructor(raindrop) {
    this.#raindrop = raindrop;
  }

  /** Returns a function for `$defaultFn` of a bigint column: it needs an ID that is in memory. */
  bigint(code) {
    const handle = this.#raindrop.code(code);
    return this.#mark(code, () => {
      const id = handle.tryNext();
      if (id === undefined) throw new Error(`no ID of ${code} is in memory: fill() the rows before the insert`);
      return id;
    });
  }

  /** Returns a function for `$defaultFn` of a text column, which only marks it for `fill`. */
  text(code) {
    return this.#mark(code, () => {
      throw new Error(`no text of an ID of ${code} without waiting: fill() the rows before the insert`);
    });
  }

  /**
   * Returns copies of rows that have IDs in each column that needs one, ascending in their order.
   *
   * @param {import('drizzle-orm').Table} table
   * @param {object[]} rows
   * @param {import('@example/raindrop').CallOptions} [options]
   */
  async fill(table, rows, options) {
    const copies = rows.map((row) => ({ ...row }));
    for (const [name, column] of Object.entries(getTableColumns(table))) {
      const code = this.#codes.get(column.defaultFn);
      if (code === undefined) continue;
      const draw = this.#drawOf(column, `${getTableName(table)}.${name}`);
      const missing = copies.filter((copy) => copy[name] === undefined);
      const ids = missing.length === 0 ? [] : await this.#raindrop[draw](code, missing.length, options);
      missing.forEach((copy, i) => (copy[name] = ids[i]));
    }
    return copies;
  }

  #mark(code, byDefault) {
    this.#codes.set(byDefault, code);
    return byDefault;
  }

  #drawOf({ dataType }, name) {
    if (dataType === 'bigint') return 'nextMany';
    if (dataType === 'string') return 'nextTextMany';
    throw new Error(`${name}: a column of ${dataType} would round an ID; use bigint with mode 'bigint', or text`);
  }
}
