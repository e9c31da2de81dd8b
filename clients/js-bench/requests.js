// Prints how many requests one process sends to the real service at two rates of use.

import { setTimeout as sleep } from 'node:timers/promises';

import { Raindrop } from '@example/raindrop';
import { startService } from '../../tests/clients/service.mjs';

const SECONDS = Number(process.env.SECONDS ?? 5);
const WARM_UP = 3;

/** Draws `rate` IDs a second, and counts after the warm-up. */
async function use(url, rate, maxRange) {
  const counts = { requests: 0, fetched: 0, failed: 0, dropped: 0, waits: 0, drawn: 0 };
  const client = new Raindrop({
    urls: [url],
    maxRange,
    deadline: 20_000,
    onEvent({ type, ids, error }) {
      if (type === 'wait') counts.waits++;
      else if (type === 'dropped') counts.dropped += ids;
      else {
        counts.requests++;
        counts.fetched += ids;
        if (error !== undefined) counts.failed++;
      }
    },
  });
  const order = client.code('order');
  const start = performance.now();
  let begun;
  let due = 0;
  for (let elapsed = 0; elapsed < WARM_UP + SECONDS; elapsed = (performance.now() - start) / 1000) {
    if (begun === undefined && elapsed >= WARM_UP) {
      begun = performance.now();
      for (const name of Object.keys(counts)) counts[name] = 0;
    }
    for (; due < rate * elapsed; due++, counts.drawn++) order.tryNext() ?? (await order.next());
    await sleep(1);
  }
  const seconds = (performance.now() - begun) / 1000;
  client.close();
  return { ...counts, seconds };
}

const service = await startService();
try {
  console.log(
    '| wanted IDs/s | `maxRange` | drawn IDs/s | requests/s | IDs a request | waits/s | failed |',
  );
  console.log('|--:|--:|--:|--:|--:|--:|--:|');
  for (const [rate, maxRange] of [
    [10_000, 100_000],
    [1_000_000, 100_000],
    [1_000_000, 1_000_000],
  ]) {
    const { seconds, drawn, requests, fetched, waits, failed } = await use(
      service.url,
      rate,
      maxRange,
    );
    const cells = [
      rate,
      maxRange,
      drawn / seconds,
      requests / seconds,
      fetched / requests,
      waits / seconds,
      failed,
    ];
    console.log(
      `| ${cells.map((value) => (value < 1000 ? `${+value.toFixed(2)}` : value.toFixed(0))).join(' | ')} |`,
    );
  }
} finally {
  await service.stop();
}
