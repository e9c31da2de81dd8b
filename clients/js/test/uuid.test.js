import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { promisify } from 'node:util';

import { Raindrop } from '../dist/esm/index.js';
import { uuidOf } from '../dist/esm/uuid.js';
import { FakeService, answerOf } from './support.js';

function open(t, more) {
  const service = new FakeService();
  service.answer = (upTo) => service.issue(upTo, more);
  const client = new Raindrop({ urls: ['http://a.example.org'], fetch: service.fetch });
  t.after(() => client.close());
  return client;
}

test('UUIDs have the bits of the contract', async () => {
  const file = new URL('../../conformance/uuids.json', import.meta.url);
  const vectors = JSON.parse(await readFile(file, 'utf8'));
  assert.equal(vectors.length, 8);
  for (const { why, id, time, random, uuid } of vectors) {
    const { epoch_ms: epoch, unit_ms: unit, shift, bits } = time;
    const field = { epoch, unit, shift: BigInt(shift), mask: 2n ** BigInt(bits) - 1n };
    assert.equal(uuidOf(field, BigInt(id), BigInt(`0x${random}`)), uuid, why);
  }
});

test('UUIDs ascend, and differ in all random bits', async (t) => {
  const client = open(t, { prefix: 'ORD-' });
  const uuids = await client.nextUuidMany('order', 300);
  uuids.push(await client.nextUuid('order'));
  assert.deepEqual(uuids, [...new Set(uuids)].sort());
  for (const uuid of uuids)
    assert.match(uuid, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  const numbers = uuids.map((uuid) => BigInt(`0x${uuid.replaceAll('-', '')}`));
  const differ = numbers.reduce((bits, number) => bits | (number ^ numbers[0]), 0n);
  // 22 bits are fields.
  assert.equal(BigInt.asUintN(52, differ), 2n ** 52n - 1n);
  assert.equal(await client.next('order'), 252201579132751872n + 301n);
});

const refused = [
  [{ layout: undefined, time: undefined, increment: '1' }, /have no time/],
  [{ time: undefined }, /or one that wraps/],
  [{ time: { epoch_ms: 0, unit_ms: 10, shift: 24, bits: 39 } }, /ticks of 10 ms/],
  [{ time: { epoch_ms: -1, unit_ms: 1, shift: 22, bits: 41 } }, /begin at -1 Unix ms/],
];

for (const [more, message] of refused) {
  test(`IDs of ${JSON.stringify(more)} are no UUIDs`, async (t) => {
    const client = open(t, more);
    await assert.rejects(client.nextUuid('order'), { kind: 'usage', message });
    await assert.rejects(client.code('order').nextUuidMany(2), { kind: 'usage', message });
  });
}

for (const build of ['esm', 'commonjs']) {
  test(`${build} has random bits where crypto is not global, as in Node 18`, async () => {
    const script = `
      delete globalThis.crypto;
      import('./dist/${build}/uuid.js').then(async ({ loadRandomSource, randomUuids }) => {
        await loadRandomSource();
        const time = { epoch: 0, unit: 1, shift: 22n, mask: 2n ** 41n - 1n };
        console.log(randomUuids('order', time, [0n])[0]);
      });`;
    const cwd = new URL('..', import.meta.url);
    const { stdout } = await promisify(execFile)(process.execPath, ['-e', script], { cwd });
    assert.match(stdout, /^00000000-0000-7000-800[0-9a-f]-[0-9a-f]{12}\n$/);
  });
}

// The field `time` of two layouts of uuids.json, and an ID of each.
const DEFAULT = { epoch_ms: 1735689600000, unit_ms: 1, shift: 22, bits: 41 };
const DEFAULT_ID = 252201579132751872n;
const JS_SAFE = { epoch_ms: 1582136402000, unit_ms: 1, shift: 12, bits: 51 };
const JS_SAFE_ID = 871234567890123n;
const SEGMENT = { layout: undefined, time: undefined, increment: '1' };

/** Opens a client whose service gives these answers: what differs, the first ID, and by default `up_to` IDs. */
function openWith(t, ...answers) {
  const service = new FakeService();
  service.answer = (upTo) => {
    const [more, first, count = upTo] = answers.shift();
    return answerOf(count, first, more);
  };
  const dropped = [];
  const onEvent = ({ type, ids }) => type === 'dropped' && dropped.push(ids);
  const { fetch } = service;
  const client = new Raindrop({ urls: ['http://a.example.org'], fetch, minRange: 6, onEvent });
  t.after(() => client.close());
  return { client, dropped };
}

/** The ID of the default layout in a UUID. */
function idOf(uuid) {
  const bits = BigInt(`0x${uuid.replaceAll('-', '')}`);
  const free = (((bits >> 64n) & 0xfffn) << 62n) | BigInt.asUintN(62, bits);
  return (((bits >> 80n) - BigInt(DEFAULT.epoch_ms)) << 22n) | (free >> 52n);
}

const idsFrom = (first, n) => Array.from({ length: n }, (_, i) => first + BigInt(i));

test('all UUIDs of a call are of IDs that came with one time', async (t) => {
  const { client, dropped } = openWith(
    t,
    [{ time: JS_SAFE }, JS_SAFE_ID, 4],
    [{ time: DEFAULT }, DEFAULT_ID],
  );
  await client.warmUp('order');
  const uuids = await client.nextUuidMany('order', 6);
  assert.deepEqual(uuids.map(idOf), idsFrom(DEFAULT_ID, 6));
  assert.deepEqual(dropped, [4]);
  assert.equal(client.timeOf('order', DEFAULT_ID).toISOString(), '2026-11-27T22:39:02.144Z');
});

test('IDs of two answers with equal times are UUIDs of one call', async (t) => {
  const { client, dropped } = openWith(
    t,
    [{ time: DEFAULT }, DEFAULT_ID, 4],
    [{ time: { ...DEFAULT } }, DEFAULT_ID + 4n],
  );
  await client.warmUp('order');
  const uuids = await client.nextUuidMany('order', 6);
  assert.deepEqual(uuids.map(idOf), idsFrom(DEFAULT_ID, 6));
  assert.deepEqual(dropped, []);
});

test('no UUID has the time of an earlier answer', async (t) => {
  const { client, dropped } = openWith(
    t,
    [{ time: DEFAULT }, DEFAULT_ID, 6],
    [SEGMENT, 1n, 8],
    [{ time: DEFAULT }, DEFAULT_ID + 6n],
  );
  const refused = { kind: 'usage', message: /have no time/ };
  assert.equal(idOf(await client.nextUuid('order')), DEFAULT_ID);
  await assert.rejects(client.nextUuidMany('order', 8), refused);
  assert.throws(() => client.timeOf('order', 1n), { kind: 'usage', message: /have no time/ });
  // Those that were left, and those that became no UUIDs.
  assert.deepEqual(dropped, [5, 8]);
  const uuids = await client.nextUuidMany('order', 2);
  assert.deepEqual(uuids.map(idOf), idsFrom(DEFAULT_ID + 6n, 2));
});

// By its option, because Node 18.17 has no `module.register`.
const withoutCrypto = `export const resolve = (name, context, next) => {
  if (name === 'node:crypto') throw new Error('no bits today');
  return next(name, context);
};`;
const withoutBits = {
  'a source that fails': {
    prepare: `
      const getRandomValues = () => { throw new Error('no bits today'); };
      Object.defineProperty(globalThis, 'crypto', { value: { getRandomValues } });`,
    options: [],
  },
  'no source': {
    prepare: 'delete globalThis.crypto;',
    options: ['--experimental-loader', `data:text/javascript,${encodeURIComponent(withoutCrypto)}`],
  },
};

for (const [what, { prepare, options }] of Object.entries(withoutBits)) {
  test(`${what} of random bits is an error of kind transport`, async (t) => {
    const path = (name) => JSON.stringify(new URL(`../${name}`, import.meta.url).href);
    const script = `${prepare}
      const url = 'http://a.example.org';
      Promise.all([import(${path('dist/esm/index.js')}), import(${path('test/support.js')})]).then(
        async ([{ Raindrop, RaindropError }, { FakeService }]) => {
          const client = new Raindrop({ urls: [url], fetch: new FakeService().fetch });
          for (const call of [client.nextUuid('order'), client.nextUuidMany('order', 2)]) {
            const error = await call.catch((thrown) => thrown);
            const isOurs = error instanceof RaindropError;
            console.log(isOurs, error.kind, error.message, '<-', error.cause?.message);
          }
        });`;
    // A file, because Node 18.17 does not use the loader for a script of --eval.
    const folder = await mkdtemp(join(tmpdir(), 'raindrop-'));
    t.after(() => rm(folder, { recursive: true }));
    const file = join(folder, 'script.cjs');
    await writeFile(file, script);
    const { stdout } = await promisify(execFile)(process.execPath, [...options, file]);
    assert.match(
      stdout,
      /^(true transport the platform has no [a-z ]+: no bits today <- no bits today\n){2}$/,
    );
  });
}

test('calls for UUIDs check their arguments', async (t) => {
  const client = open(t);
  await assert.rejects(client.nextUuidMany('order', 0), { kind: 'usage', message: /^n: 0/ });
  await assert.rejects(client.nextUuid('no code!'), { kind: 'usage', message: /^code: / });
});
