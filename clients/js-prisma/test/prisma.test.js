// The extension with the real Prisma, PostgreSQL and Raindrop.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { PrismaPg } from '@prisma/adapter-pg';
import pg from 'pg';
import typescript from 'typescript';

import { Raindrop, RaindropError } from '@example/raindrop';
import { Example } from '../../../tests/clients/example.mjs';
import { startPostgres, startService } from '../../../tests/clients/service.mjs';
import { raindropIds } from '../dist/esm/index.js';
import generated from './generated/client.js';

const MODELS = {
  Customer: 'customer',
  Order: 'order',
  OrderLine: { code: 'line' },
  Invoice: { code: 'order', field: 'id' },
  Parcel: { code: 'order', uuid: true },
};
const TABLES = `
  CREATE TABLE "Customer" ("id" bigint PRIMARY KEY, "name" text NOT NULL UNIQUE);
  CREATE TABLE "Order" ("id" bigint PRIMARY KEY, "note" text NOT NULL UNIQUE, "customerId" bigint REFERENCES "Customer");
  CREATE TABLE "OrderLine" ("id" bigint PRIMARY KEY, "item" text NOT NULL, "orderId" bigint NOT NULL REFERENCES "Order");
  CREATE TABLE "Parcel" ("id" uuid PRIMARY KEY, "place" integer NOT NULL);
  CREATE TABLE "Invoice" ("id" text PRIMARY KEY, "note" text NOT NULL);
`;

let database, service, raindrop, plain, prisma;
let drawn = 0;

before(async () => {
  // One after the other, so that `after` knows what runs.
  database = await startPostgres();
  service = await startService();
  const connection = new pg.Client(database);
  await connection.connect();
  await connection.query(TABLES);
  await connection.end();
  raindrop = new Raindrop({ urls: [service.url], deadline: 20_000 });
  plain = new generated.PrismaClient({ adapter: new PrismaPg(database) });
  prisma = plain.$extends(raindropIds(raindrop, MODELS));
});

after(async () => {
  raindrop?.close();
  await plain?.$disconnect();
  await Promise.all([database?.stop(), service?.stop()]);
});

/** Checks that a record has an ID of the service, which was not drawn before. */
const seen = new Set();
function assertFresh(...ids) {
  for (const id of ids) {
    const at = raindrop
      .timeOf('order', typeof id === 'string' ? BigInt(id.replace('ORD-', '')) : id)
      .getTime();
    assert.ok(Math.abs(at - Date.now()) < 60_000, `${id}`);
    assert.ok(!seen.has(id), `${id} twice`);
    seen.add(id);
  }
}
const unique = (name) => `${name} ${++drawn}`;

test('create, with an ID and without', async () => {
  const { id } = await prisma.order.create({ data: { note: unique('create') } });
  assertFresh(id);
  assert.equal((await prisma.order.create({ data: { id: 7n, note: unique('own') } })).id, 7n);
  assert.ok(await plain.order.findUnique({ where: { id } }));
});

test('createMany and createManyAndReturn give ascending IDs in the order of the records', async () => {
  const data = Array.from({ length: 2000 }, (_, i) => ({ note: `many ${i}` }));
  assert.deepEqual(await prisma.order.createMany({ data }), { count: 2000 });
  assert.ok(
    data.every((record) => record.id === undefined),
    'the arguments were changed',
  );
  const stored = await plain.order.findMany({
    where: { note: { startsWith: 'many ' } },
    orderBy: { id: 'asc' },
  });
  assert.deepEqual(
    stored.map(({ note }) => note),
    data.map(({ note }) => note),
  );
  assertFresh(...stored.map(({ id }) => id));
  const returned = await prisma.order.createManyAndReturn({
    data: [{ note: unique('r') }, { note: unique('r') }],
  });
  assertFresh(...returned.map(({ id }) => id));
  assert.ok(returned[0].id < returned[1].id);
});

test('a text field gets the text with the prefix', async () => {
  const { id } = await prisma.invoice.create({ data: { note: 'text' } });
  assert.match(id, /^ORD-\d+$/);
  assertFresh(id);
});

test('a uuid field gets UUIDs, which PostgreSQL sorts as they were drawn', async () => {
  const data = Array.from({ length: 1000 }, (_, place) => ({ place }));
  const records = await prisma.parcel.createManyAndReturn({ data });
  assert.deepEqual(
    records.map(({ place }) => place),
    data.map(({ place }) => place),
  );
  assert.deepEqual(await plain.parcel.findMany({ orderBy: { id: 'asc' } }), records);
  assert.match(records[0].id, /^[0-9a-f]{8}-[0-9a-f]{4}-7/);
  const id = '01a21f29-7c00-7004-8000-000000000000';
  assert.equal((await prisma.parcel.create({ data: { id, place: 7 } })).id, id);
  const wrong = raindropIds(raindrop, { Order: { code: 'order', uuid: true } });
  assert.throws(() => plain.$extends(wrong), /Order\.id is BigInt, but a UUID needs String/);
});

test('upsert creates once', async () => {
  const upsert = (note) =>
    prisma.order.upsert({
      where: { note: 'upsert' },
      create: { note: 'upsert' },
      update: { note },
    });
  const { id } = await upsert('upsert');
  assertFresh(id);
  assert.equal((await upsert('upsert')).id, id);
});

test('nested records of every depth get IDs', async () => {
  const customer = await prisma.customer.create({
    data: {
      name: unique('nested'),
      orders: {
        create: [
          { note: unique('o'), lines: { create: { item: 'one' } } },
          {
            note: unique('o'),
            lines: { createMany: { data: [{ item: 'two' }, { item: 'three' }] } },
          },
        ],
        connectOrCreate: {
          where: { note: 'absent' },
          create: { note: unique('o'), lines: { create: [{ item: 'four' }] } },
        },
      },
    },
    include: { orders: { include: { lines: true } } },
  });
  const { orders } = customer;
  assert.equal(orders.length, 3);
  assertFresh(
    customer.id,
    ...orders.map(({ id }) => id),
    ...orders.flatMap(({ lines }) => lines.map(({ id }) => id)),
  );
});

test('nested records of an update get IDs', async () => {
  const { id } = await prisma.order.create({ data: { note: unique('update') } });
  const {
    customer,
    lines: [first],
  } = await prisma.order.update({
    where: { id },
    data: { customer: { create: { name: unique('c') } }, lines: { create: { item: 'a' } } },
    include: { customer: true, lines: true },
  });
  const { orders } = await prisma.customer.update({
    where: { id: customer.id },
    data: {
      orders: {
        create: { note: unique('sibling') },
        update: {
          where: { id },
          data: {
            lines: {
              upsert: { where: { id: 1n }, create: { item: 'b' }, update: { item: 'never' } },
            },
          },
        },
      },
    },
    include: { orders: { include: { lines: { orderBy: { id: 'asc' } } }, orderBy: { id: 'asc' } } },
  });
  assert.deepEqual(
    orders.map(({ lines }) => lines.map(({ item }) => item)),
    [['a', 'b'], []],
  );
  assertFresh(id, customer.id, first.id, orders[0].lines[1].id, orders[1].id);
  // A relation to one takes its changes with `data` and without.
  for (const update of [{ note: 'direct' }, { data: { note: 'wrapped' } }]) {
    await prisma.orderLine.update({ where: { id: first.id }, data: { order: { update } } });
  }
  assert.equal((await plain.order.findUniqueOrThrow({ where: { id } })).note, 'wrapped');
});

test('transactions of both kinds', async () => {
  const data = () => ({ data: { note: unique('transaction') } });
  const listed = await prisma.$transaction([
    prisma.order.create(data()),
    prisma.order.create(data()),
  ]);
  assertFresh(...listed.map(({ id }) => id));
  const { id } = await prisma.$transaction((inner) => inner.order.create(data()));
  assertFresh(id);
  const kept = await plain.order.count();
  await assert.rejects(
    prisma.$transaction(async (inner) => {
      await inner.order.create(data());
      throw new Error('rolled back');
    }),
    /rolled back/,
  );
  assert.equal(await plain.order.count(), kept);
});

test('reads are left alone', async () => {
  assert.equal(await prisma.order.findFirst({ where: { note: 'nobody' } }), null);
  assert.equal(
    (await prisma.order.updateMany({ where: { note: 'nobody' }, data: { note: 'x' } })).count,
    0,
  );
});

test('without the extension a write fails', async () => {
  await assert.rejects(plain.order.create({ data: { note: unique('plain') } }), { code: 'P2011' });
});

test('if Raindrop fails, nothing is written', async () => {
  const closed = new Raindrop({ urls: [service.url] });
  closed.close();
  const failing = plain.$extends(raindropIds(closed, MODELS));
  const kept = await plain.order.count();
  const isClosed = (error) => error instanceof RaindropError && error.kind === 'closed';
  await assert.rejects(failing.order.create({ data: { note: 'failing' } }), isClosed);
  assert.equal(await plain.order.count(), kept);
});

test('wrong models are refused at once', () => {
  const extend = (models) => plain.$extends(raindropIds(raindrop, models));
  assert.throws(() => extend({ Nothing: 'order' }), /no model Nothing/);
  assert.throws(
    () => extend({ Order: { code: 'order', field: 'customer' } }),
    /Order\.customer is Customer, but BigInt/,
  );
  assert.throws(() => raindropIds(raindrop, {})({}), /does not tell extensions/);
});

const example = await Example.of(import.meta.url);

test('the example and the types agree', async () => {
  const more =
    'export const note: string = order.lines[0].item; export const wrong: number = order.id;';
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
  const parsed = JSON.parse(json);
  assert.equal(parsed.id, `${order.id}`);
  assert.deepEqual(
    parsed.lines.map(({ item, id }) => [item, typeof id]),
    [
      ['green', 'string'],
      ['black', 'string'],
    ],
  );
});
