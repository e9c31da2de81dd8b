import { getTableColumns, getTableName } from 'drizzle-orm';

/**
 * Gives rows of Drizzle an ID from Raindrop.
 *
 * Drizzle's default functions cannot wait, so `fill` draws the IDs before an insert.
 */
export class RaindropIds {
  #raindrop;
  /** @type {WeakMap<() => unknown, {code: string, dataType: string}>} by default function */
  #marks = new WeakMap();

  /** @param {import('@example/raindrop').Raindrop} raindrop */
  constructor(raindrop) {
    this.#raindrop = raindrop;
  }

  /** Returns a function for `$defaultFn` of a bigint column: it needs an ID that is in memory. */
  bigint(code) {
    const handle = this.#raindrop.code(code);
    const mark = { code, dataType: 'bigint' };
    return this.#mark(mark, function () {
      // Drizzle calls it as a method of the column.
      if (this !== undefined) refuseUnfit(this, mark);
      const id = handle.tryNext();
      if (id === undefined)
        throw new Error(`no ID of ${code} is in memory: fill() the rows before the insert`);
      return id;
    });
  }

  /** Returns a function for `$defaultFn` of a text column, which only marks it for `fill`. */
  text(code) {
    return this.#mark({ code, dataType: 'string' }, () => {
      throw new Error(
        `no text of an ID of ${code} without waiting: fill() the rows before the insert`,
      );
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
    const columns = Object.entries(getTableColumns(table)).filter(([, column]) =>
      this.#marks.has(column.defaultFn),
    );
    if (columns.length === 0)
      throw new Error(`${getTableName(table)}: no column has a default of this RaindropIds`);
    for (const [name, column] of columns) {
      const mark = this.#marks.get(column.defaultFn);
      refuseUnfit(column, mark);
      const draw = mark.dataType === 'bigint' ? 'nextMany' : 'nextTextMany';
      const missing = copies.filter((copy) => copy[name] === undefined);
      const ids =
        missing.length === 0 ? [] : await this.#raindrop[draw](mark.code, missing.length, options);
      missing.forEach((copy, i) => (copy[name] = ids[i]));
    }
    return copies;
  }

  #mark(mark, byDefault) {
    this.#marks.set(byDefault, mark);
    return byDefault;
  }
}

/** Refuses a column that would round an ID, or store a number where its default is a text. */
function refuseUnfit({ name, table, dataType }, mark) {
  if (dataType === mark.dataType) return;
  const place = `${getTableName(table)}.${name}`;
  if (dataType === 'number')
    throw new Error(
      `${place}: a column of number would round an ID; use bigint with mode 'bigint', or text`,
    );
  throw new Error(
    `${place}: a column of ${dataType}; bigint() needs one with mode 'bigint', text() one of text`,
  );
}
