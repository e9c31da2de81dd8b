// The helper with the real Drizzle, PostgreSQL and Raindrop.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { DrizzleQueryError, sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/node-postgres';
import { bigint, doublePrecision, integer, pgTable, text, uuid } from 'drizzle-orm/pg-core';
import typescript from 'typescript';

import { Raindrop } from '@example/raindrop';
import { Example } from '../../../tests/clients/example.mjs';
import { startPostgres, startService } from '../../../tests/clients/service.mjs';
import { RaindropIds } from '../dist/esm/index.js';

let database, service, raindrop, ids, db, orders, invoices;

before(async () => {
  // One after the other, so that `after` knows what runs.
  database = await startPostgres();
  service = await startService();
  raindrop = new Raindrop({ urls: [service.url], deadline: 20_000 });
  ids = new RaindropIds(raindrop);
  orders = tableOf(ids);
  invoices = pgTable('invoices', { id: text('id').primaryKey().$defaultFn(ids.text('order')) });
  db = drizzle(database.connectionString);
  await db.execute(sql`CREATE TABLE orders (id bigint PRIMARY KEY, note text NOT NULL)`);
  await db.execute(sql`CREATE TABLE invoices (id text PRIMARY KEY)`);
});

after(async () => {
  raindrop?.close();
  await db?.$client.end();
  await Promise.all([database?.stop(), service?.stop()]);
});

function tableOf(given) {
  return pgTable('orders', {
    id: bigint('id', { mode: 'bigint' }).primaryKey().$defaultFn(given.bigint('order')),
    note: text('note').notNull(),
  });
}

test('filled rows have ascending IDs, each once', async () => {
  const rows = Array.from({ length: 1000 }, (_, i) => ({ note: `row ${i}` }));
  const filled = await ids.fill(orders, rows);
  assert.ok(
    rows.every(({ id }) => id === undefined),
    'the rows were changed',
  );
  const inserted = await db.insert(orders).values(filled).returning();
  assert.deepEqual(
    inserted.map(({ note }) => note),
    rows.map(({ note }) => note),
  );
  assert.ok(
    inserted.every(({ id }, i) => typeof id === 'bigint' && (i === 0 || inserted[i - 1].id < id)),
  );
  assert.ok(Math.abs(Date.now() - raindrop.timeOf('order', inserted[0].id)) < 60_000);
});

test('a row that has an ID keeps it', async () => {
  const [own, other] = await ids.fill(orders, [{ id: 7n, note: 'own' }, { note: 'other' }]);
  assert.equal(own.id, 7n);
  assert.ok(other.id > 7n);
  assert.deepEqual(await ids.fill(orders, []), []);
});

test('a text column gets the text with the prefix', async () => {
  const [{ id }] = await db
    .insert(invoices)
    .values(await ids.fill(invoices, [{}]))
    .returning();
  assert.match(id, /^ORD-\d+$/);
  assert.throws(() => db.insert(invoices).values({}).toSQL(), /without waiting: fill\(\)/);
});

test('a uuid column gets UUIDs, which PostgreSQL sorts as they were drawn', async () => {
  await db.execute(sql`CREATE TABLE parcels (id uuid PRIMARY KEY, place integer NOT NULL)`);
  const parcels = pgTable('parcels', {
    id: uuid('id').primaryKey().$defaultFn(ids.uuid('order')),
    place: integer('place').notNull(),
  });
  const rows = Array.from({ length: 1000 }, (_, place) => ({ place }));
  const filled = await ids.fill(parcels, rows);
  await db.insert(parcels).values(filled);
  assert.deepEqual(await db.select().from(parcels).orderBy(parcels.id), filled);
  assert.match(filled[0].id, /^[0-9a-f]{8}-[0-9a-f]{4}-7/);
  const own = '01a21f29-7c00-7004-8000-000000000000';
  assert.equal((await ids.fill(parcels, [{ id: own, place: 7 }]))[0].id, own);
  assert.throws(() => db.insert(parcels).values({ place: 1 }).toSQL(), /without waiting: fill\(\)/);
  const wrong = pgTable('wrong', {
    id: bigint('id', { mode: 'bigint' }).$defaultFn(ids.uuid('order')),
  });
  await assert.rejects(ids.fill(wrong, [{}]), /uuid\(\) one of text or uuid/);
});

test('an ID survives a round trip through JSON as text', async () => {
  const [order] = await db
    .insert(orders)
    .values(await ids.fill(orders, [{ note: 'json' }]))
    .returning();
  const json = JSON.stringify(order, (key, value) =>
    typeof value === 'bigint' ? `${value}` : value,
  );
  assert.equal(JSON.parse(json).id, `${order.id}`);
});

test('without fill, an insert draws from a warm buffer or throws', async (t) => {
  const client = new Raindrop({ urls: [service.url], deadline: 20_000, minRange: 100 });
  t.after(() => client.close());
  const table = tableOf(new RaindropIds(client));
  assert.throws(
    () => db.insert(table).values({ note: 'cold' }).toSQL(),
    /no ID of order is in memory: fill\(\)/,
  );
  const before = await client.next('order');
  const [{ id }] = await db.insert(table).values({ note: 'warm' }).returning();
  assert.ok(id > before);
});

test('a prepared insert repeats its default, and a placeholder does not', async (t) => {
  const client = new Raindrop({ urls: [service.url], deadline: 20_000, minRange: 100 });
  t.after(() => client.close());
  const table = tableOf(new RaindropIds(client));
  await client.next('order');
  const wrong = db.insert(table).values({ note: 'prepared' }).prepare('wrong');
  await wrong.execute();
  await assert.rejects(
    wrong.execute(),
    (error) => error instanceof DrizzleQueryError && error.cause.code === '23505',
  );
  const right = db
    .insert(table)
    .values({ id: sql.placeholder('id'), note: 'prepared' })
    .prepare('right');
  for (let i = 0; i < 2; i++) await right.execute({ id: await client.next('order') });
});

test('a column that would round or lose the prefix is refused, with fill and without', async (t) => {
  const client = new Raindrop({ urls: [service.url], deadline: 20_000, minRange: 100 });
  t.after(() => client.close());
  const warm = new RaindropIds(client);
  await client.next('order');
  const rounds = /orders\.id: a column of number would round an ID/;
  for (const [column, kind, wanted] of [
    [bigint('id', { mode: 'number' }), 'bigint', rounds],
    [doublePrecision('id'), 'bigint', rounds],
    [bigint('id', { mode: 'number' }), 'text', rounds],
    [
      text('id'),
      'bigint',
      /orders\.id: a column of string; bigint\(\) needs one with mode 'bigint'/,
    ],
    [
      bigint('id', { mode: 'bigint' }),
      'text',
      /orders\.id: a column of bigint; .* text\(\) and uuid\(\) one of text or uuid$/,
    ],
  ]) {
    const unfit = pgTable('orders', {
      id: column.$defaultFn(warm[kind]('order')),
      note: text('note'),
    });
    await assert.rejects(warm.fill(unfit, [{ note: 'unfit' }]), wanted);
    const withoutFill = kind === 'bigint' ? wanted : /without waiting/;
    assert.throws(() => db.insert(unfit).values({ note: 'unfit' }).toSQL(), withoutFill);
  }
});

test('fill refuses a table without a column of this RaindropIds', async () => {
  const wanted = /^Error: orders: no column has a default of this RaindropIds$/;
  for (const table of [
    tableOf(new RaindropIds(raindrop)),
    pgTable('orders', { id: bigint('id', { mode: 'bigint' }) }),
  ]) {
    await assert.rejects(ids.fill(table, [{ note: 'unmarked' }]), wanted);
    await assert.rejects(ids.fill(table, []), wanted);
  }
});

test('if Raindrop fails, so does fill', async () => {
  const client = new Raindrop({ urls: [service.url] });
  const failing = new RaindropIds(client);
  const table = tableOf(failing);
  client.close();
  await assert.rejects(failing.fill(table, [{ note: 'failing' }]), {
    name: 'RaindropError',
    kind: 'closed',
  });
});

const example = await Example.of(import.meta.url);

test('the example and the types agree', async () => {
  const more = 'export const note: string = order.note; export const wrong: number = order.id;';
  assert.deepEqual(await example.complaints(typescript, more), [
    "Type 'bigint' is not assignable to type 'number'.",
  ]);
});

test('the example of the README runs', async () => {
  const { invoice, json, order } = await example.run(service, database, [
    'invoice',
    'json',
    'order',
  ]);
  assert.match(invoice.id, /^ORD-\d+$/);
  assert.deepEqual(JSON.parse(json), { id: `${order.id}`, note: 'tea' });
});
