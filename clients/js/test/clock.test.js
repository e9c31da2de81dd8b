import assert from 'node:assert/strict';
import test from 'node:test';

import { AgeClock, platformClock } from '../dist/esm/clock.js';
import { Rate } from '../dist/esm/rate.js';
import { FakeClock } from './support.js';

const SLACK = 25;

function start() {
  const clock = new FakeClock();
  const ages = new AgeClock(clock, SLACK);
  const begin = ages.now();
  return { clock, age: () => ages.now() - begin };
}

test('age is the time that passes', () => {
  const { clock, age } = start();
  clock.pass(700);
  assert.equal(age(), 700);
});

test('sleep counts, though the steady clock stands still', () => {
  const { clock, age } = start();
  clock.pass(100);
  clock.unix += 8 * 3_600_000;
  assert.equal(age(), 100 + 8 * 3_600_000);
});

test('a wall clock that is set back makes nothing younger', () => {
  const { clock, age } = start();
  clock.unix += 5000;
  assert.equal(age(), 5000);
  clock.unix -= 60_000;
  assert.equal(age(), 5000);
  clock.pass(300);
  assert.equal(age(), 5300);
});

test('sleep counts after the wall clock was set back', () => {
  const { clock, age } = start();
  clock.unix -= 3_600_000;
  assert.equal(age(), 0);
  clock.unix += 10_000;
  assert.equal(age(), 10_000);
});

test('short sleeps add up beyond the slack', () => {
  const { clock, age } = start();
  for (let i = 1; i <= 40; i++) {
    clock.unix += 10;
    assert.ok(age() >= i * 10 - SLACK && age() <= i * 10, `${age()} after ${i * 10} ms`);
  }
});

test('rounding of the wall clock does not add up', () => {
  const { clock, age } = start();
  for (let i = 0; i < 10_000; i++) {
    clock.at += 0.3;
    clock.unix = 1764322200000 + Math.floor(clock.at - 1000 + (i % 3) * 0.4);
    age();
  }
  assert.ok(Math.abs(age() - 3000) < SLACK, `${age()}`);
});

test('the clocks of the platform go on', () => {
  const ages = new AgeClock(platformClock, SLACK);
  const begin = ages.now();
  while (platformClock.steady() < begin + 5);
  assert.ok(ages.now() >= begin + 5);
});

test('the rate follows a burst at once and forgets it within two windows', () => {
  const rate = new Rate();
  let used = 0;
  let now = 0;
  const run = (ms, perMs) => {
    for (const end = now + ms; now < end; now += 10) {
      used += perMs * 10;
      rate.measure(now, used);
    }
  };
  run(5000, 0.1);
  assert.ok(Math.abs(rate.measure(now, used) - 0.1) < 0.02);
  run(1200, 10);
  assert.ok(rate.measure(now, used) > 7);
  run(2500, 0.1);
  assert.ok(rate.measure(now, used) < 0.2);
});

test('one call is no rate, however many IDs it took, and a few IDs are none', () => {
  const rate = new Rate();
  assert.equal(rate.measure(1, 5000), 0);
  assert.equal(rate.measure(2, 5003), 0);
  assert.ok(rate.measure(100, 5100) > 0.5);
  rate.measure(5000, 5100);
  rate.measure(10_000, 5100);
  assert.equal(rate.measure(15_000, 9000), 0);
});
