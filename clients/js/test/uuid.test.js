import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import test from 'node:test';
import { promisify } from 'node:util';

import { Raindrop } from '../dist/esm/index.js';
import { uuidOf } from '../dist/esm/uuid.js';
import { FakeService } from './support.js';

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
      import('./dist/${build}/uuid.js').then(async ({ loadRandomSource, randomUuid }) => {
        await loadRandomSource();
        console.log(randomUuid('order', { epoch: 0, unit: 1, shift: 22n, mask: 2n ** 41n - 1n }, 0n));
      });`;
    const cwd = new URL('..', import.meta.url);
    const { stdout } = await promisify(execFile)(process.execPath, ['-e', script], { cwd });
    assert.match(stdout, /^00000000-0000-7000-800[0-9a-f]-[0-9a-f]{12}\n$/);
  });
}

test('calls for UUIDs check their arguments', async (t) => {
  const client = open(t);
  await assert.rejects(client.nextUuidMany('order', 0), { kind: 'usage', message: /^n: 0/ });
  await assert.rejects(client.nextUuid('no code!'), { kind: 'usage', message: /^code: / });
});
