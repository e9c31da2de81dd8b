// Prints what one ID costs from a warm buffer, beside a closure that increments a bigint and flake-idgen.

import FlakeId from 'flake-idgen';

import { Raindrop } from '@example/raindrop';

const ROUNDS = Number(process.env.ROUNDS ?? 11);
const CALLS = 400_000;

// flake-idgen has 4096 IDs in a millisecond, and throws when they are used up.
const BURST = 2000;

/** Answers as the service does: rows of 4096 IDs, one for each millisecond. */
async function answer(url) {
  const upTo = Number(new URL(url).searchParams.get('up_to'));
  const [count, repeat, stride] = [4096, Math.floor(upTo / 4096), 4_194_304n];
  answer.next = (answer.next ?? 252201579132751872n) + BigInt(repeat) * stride;
  const first = answer.next;
  const last = first + BigInt(repeat - 1) * stride + BigInt(count - 1);
  const ranges = [
    { first: `${first}`, last: `${last}`, step: '1', count, repeat, stride: `${stride}` },
  ];
  const time = { epoch_ms: 1735689600000, unit_ms: 1, shift: 22, bits: 41 };
  const issued_at = new Date().toISOString();
  const body = { issued_at, layout: 'benchmark', time, prefix: 'ORD-', ranges };
  return new Response(JSON.stringify(body), { headers: { 'content-type': 'application/json' } });
}

const [minRange, maxRange] = [1_000_000, 1_000_000];
const client = new Raindrop({
  urls: ['http://raindrop.example.org'],
  minRange,
  maxRange,
  fetch: answer,
});
const order = client.code('order');
const flake = new FlakeId({ id: 1 });
let counter = 252201579132751872n;

/** Fills the buffer: a loop without a pause lets no refill in. */
async function warm() {
  await order.next();
  await new Promise((resolve) => setTimeout(resolve, 5));
}

let sink;

/** Returns the process's CPU time in milliseconds, which other processes do not disturb. */
function cpu() {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

function loop(call, calls = CALLS) {
  const start = cpu();
  for (let i = 0; i < calls; i++) {
    sink = call();
    if (sink === undefined) throw new Error('the buffer ran dry');
  }
  return cpu() - start;
}

/** Leaves out the time that the generator would make callers wait. */
function bursts(call) {
  let total = 0;
  for (let i = 0; i < CALLS; i += BURST) {
    for (const last = Date.now(); Date.now() === last;);
    total += loop(call, BURST);
  }
  return total;
}

async function awaited(call) {
  const start = cpu();
  for (let i = 0; i < CALLS; i++) sink = await call();
  return cpu() - start;
}

const subjects = {
  'closure that increments a bigint': () => loop(() => ++counter),
  'Date.now()': () => loop(Date.now),
  'handle.tryNext()': () => loop(() => order.tryNext()),
  'client.tryNext(code)': () => loop(() => client.tryNext('order')),
  'await handle.next()': () => awaited(() => order.next()),
  'await handle.nextText()': () => awaited(() => order.nextText()),
  'await handle.nextUuid()': () => awaited(() => order.nextUuid()),
  'crypto.randomUUID()': () => loop(() => crypto.randomUUID()),
  'flake-idgen, a Buffer, in bursts': () => bursts(() => flake.next()),
  'flake-idgen, as a bigint, in bursts': () => bursts(() => flake.next().readBigUInt64BE()),
};

const times = Object.fromEntries(Object.keys(subjects).map((name) => [name, []]));
for (let round = 0; round < ROUNDS; round++) {
  for (const [name, subject] of Object.entries(subjects)) {
    await warm();
    times[name].push(((await subject()) * 1e6) / CALLS);
  }
}
client.close();

const median = (values) => [...values].sort((a, b) => a - b)[values.length >> 1];
const base = median(times['closure that increments a bigint']);
console.log('| one ID | ns, median | fastest to slowest round | × closure |\n|---|--:|--:|--:|');
for (const [name, values] of Object.entries(times)) {
  const [ns, least, most] = [median(values), Math.min(...values), Math.max(...values)].map(
    (value) => value.toFixed(1),
  );
  console.log(`| ${name} | ${ns} | ${least} to ${most} | ${(median(values) / base).toFixed(1)} |`);
}
console.log(
  `\nCPU time of the process. In bursts of ${BURST}: flake-idgen has 4096 IDs in a millisecond, then it throws.`,
);
