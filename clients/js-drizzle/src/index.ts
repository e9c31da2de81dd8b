import type { CallOptions, Raindrop } from '@example/raindrop';
import { getTableColumns, getTableName } from 'drizzle-orm';
import type { Column, InferInsertModel, Table } from 'drizzle-orm';

/** The code and the type of the IDs that a column gets by default. */
interface Mark {
  code: string;
  dataType: 'bigint' | 'string';
  draw: 'nextMany' | 'nextTextMany' | 'nextUuidMany';
}

/**
 * Gives rows of Drizzle an ID from Raindrop.
 *
 * Drizzle's default functions cannot wait, so `fill` draws the IDs before an insert.
 */
export class RaindropIds {
  #raindrop: Raindrop;
  /** By default function. */
  #marks = new WeakMap<() => unknown, Mark>();

  constructor(raindrop: Raindrop) {
    this.#raindrop = raindrop;
  }

  /**
   * Returns a function for `$defaultFn` of a bigint column with mode `bigint`. It returns an ID that
   * is in memory. It throws if there is none, and for a column of another type.
   */
  bigint(code: string): () => bigint {
    const handle = this.#raindrop.code(code);
    const mark: Mark = { code, dataType: 'bigint', draw: 'nextMany' };
    return this.#mark(mark, function (this: Column | undefined) {
      // Drizzle calls it as a method of the column.
      if (this !== undefined) refuseUnfit(this, mark);
      const id = handle.tryNext();
      if (id === undefined)
        throw new Error(`no ID of ${code} is in memory: fill() the rows before the insert`);
      return id;
    });
  }

  /** Returns a function for `$defaultFn` of a text column. It only marks the column for `fill`: called, it throws. */
  text(code: string): () => string {
    return this.#onlyFill({ code, dataType: 'string', draw: 'nextTextMany' });
  }

  /**
   * Returns a function for `$defaultFn` of a uuid column, or of a text column. It only marks the column for
   * `fill`, as `text` does.
   */
  uuid(code: string): () => string {
    return this.#onlyFill({ code, dataType: 'string', draw: 'nextUuidMany' });
  }

  /**
   * Returns copies of rows that have IDs in each column that needs one, ascending in the rows' order.
   * A row that has an ID keeps it. Takes at most the client's `maxRange` rows. Throws if a column does
   * not fit its default, and if no column has a default of this `RaindropIds`.
   */
  async fill<T extends Table>(
    table: T,
    rows: InferInsertModel<T>[],
    options?: CallOptions,
  ): Promise<InferInsertModel<T>[]> {
    const copies: Record<string, unknown>[] = rows.map((row) => ({ ...row }));
    const marks = Object.entries<Column>(getTableColumns(table)).flatMap(([name, column]) => {
      const mark = this.#marks.get(column.defaultFn ?? unmarked);
      return mark === undefined ? [] : [{ name, column, mark }];
    });
    if (marks.length === 0)
      throw new Error(`${getTableName(table)}: no column has a default of this RaindropIds`);
    for (const { name, column, mark } of marks) {
      refuseUnfit(column, mark);
      const missing = copies.filter((copy) => copy[name] === undefined);
      const ids =
        missing.length === 0
          ? []
          : await this.#raindrop[mark.draw](mark.code, missing.length, options);
      missing.forEach((copy, i) => (copy[name] = ids[i]));
    }
    return copies as InferInsertModel<T>[];
  }

  #onlyFill(mark: Mark): () => string {
    return this.#mark(mark, () => {
      throw new Error(
        `no text of an ID of ${mark.code} without waiting: fill() the rows before the insert`,
      );
    });
  }

  #mark<F extends () => unknown>(mark: Mark, byDefault: F): F {
    this.#marks.set(byDefault, mark);
    return byDefault;
  }
}

/** Stands for the default function of a column that has none. */
function unmarked(): void {}

/** Refuses a column that would round an ID, or store a number where its default is a text. */
function refuseUnfit({ name, table, dataType }: Column, mark: Mark): void {
  if (dataType === mark.dataType) return;
  const place = `${getTableName(table)}.${name}`;
  if (dataType === 'number')
    throw new Error(
      `${place}: a column of number would round an ID; use bigint with mode 'bigint', or text`,
    );
  throw new Error(
    `${place}: a column of ${dataType}; bigint() needs one with mode 'bigint', text() and uuid() one of text or uuid`,
  );
}
