// Prints what an ID from a warm buffer costs, beside a closure that increments a bigint.
import { pathToFileURL } from 'node:url';

import { Raindrop } from './dist/esm/index.js';
import { FakeService } from './test/support.js';

const ROUNDS = 9;
const CALLS = 1_000_000;

/** Returns the nanoseconds per call of each function: medians of rounds in alternating order. */
export async function measure(rounds = ROUNDS, calls = CALLS) {
  // Each round has a client of its own, whose buffer is full after one call. A loop without a pause
  // lets no refill in. When a used buffer is refilled would depend on how fast it was used.
  const clientWithFullBuffer = async () => {
    const client = new Raindrop({
      urls: ['http://raindrop.example.org'],
      minRange: calls,
      maxRange: calls,
      fetch: new FakeService().fetch,
    });
    await client.next('order');
    return client;
  };
  let counter = 252201579132751872n;
  const subjects = {
    closure: () => () => ++counter,
    handle: (client) => {
      const order = client.code('order');
      return () => order.tryNext();
    },
    name: (client) => () => client.tryNext('order'),
  };
  const times = { closure: [], handle: [], name: [] };
  for (let round = 0; round < rounds; round++) {
    for (const [name, subject] of Object.entries(subjects)) {
      const client = await clientWithFullBuffer();
      times[name].push(time(subject(client), calls / 2));
      client.close();
    }
  }
  const asynchronous = [];
  for (let round = 0; round < rounds; round++) {
    const client = await clientWithFullBuffer();
    const order = client.code('order');
    const start = performance.now();
    for (let i = 0; i < calls / 4; i++) await order.next();
    asynchronous.push(((performance.now() - start) * 1e6) / (calls / 4));
    client.close();
  }
  return {
    closure: median(times.closure),
    handle: median(times.handle),
    name: median(times.name),
    next: median(asynchronous),
  };
}

let sink;

function time(subject, calls) {
  const start = performance.now();
  for (let i = 0; i < calls; i++) {
    sink = subject();
    if (sink === undefined) throw new Error('the buffer ran dry');
  }
  return ((performance.now() - start) * 1e6) / calls;
}

const median = (values) => values.sort((a, b) => a - b)[values.length >> 1];

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const ns = await measure();
  for (const [label, value] of [
    ['closure that increments a bigint', ns.closure],
    ['handle.tryNext()', ns.handle],
    ['client.tryNext(code)', ns.name],
    ['await handle.next()', ns.next],
  ]) {
    console.log(
      `${label.padEnd(34)}${value.toFixed(1).padStart(8)} ns ${(value / ns.closure).toFixed(1).padStart(6)} x`,
    );
  }
}
