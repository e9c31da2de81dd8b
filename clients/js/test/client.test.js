import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import test from 'node:test';

import { Raindrop, RaindropError } from '../dist/esm/index.js';
import { answerOf, FakeClock, FakeService, json, problem, settle } from './support.js';

const URLS = ['http://a.example.org'];

/** A client of a fake service, with clocks that stand still; closed after the test. */
function open(t, options = {}) {
  const service = new FakeService();
  const clock = new FakeClock();
  const events = [];
  const client = new Raindrop({
    urls: URLS,
    fetch: service.fetch,
    clock,
    deadline: 1000,
    log: () => {},
    onEvent: (event) => events.push(event),
    ...options,
  });
  t.after(() => client.close());
  const sum = (type, field) =>
    events.filter((event) => event.type === type).reduce((total, event) => total + event[field], 0);
  return { service, clock, events, client, sum };
}

const kind = (expected) => (error) => {
  assert.ok(error instanceof RaindropError, String(error));
  assert.equal(error.kind, expected, error.message);
  return true;
};

const isAscending = (ids) => ids.every((id, i) => i === 0 || ids[i - 1] < id);

test('IDs ascend and none comes twice', async (t) => {
  const { client } = open(t);
  const ids = [];
  for (let i = 0; i < 500; i++) ids.push(await client.next('order'));
  assert.ok(isAscending(ids));
  assert.equal(typeof ids[0], 'bigint');
});

test('a request is a POST of the contract, with the token and nothing else', async (t) => {
  const { client, service } = open(t, {
    urls: ['http://a.example.org/ids-service/'],
    token: 'raindrop_1',
    namespace: 'a&b',
  });
  await client.next('shop:order');
  const [{ url, request }] = service.requests;
  assert.equal(
    url.href,
    'http://a.example.org/ids-service/ids/shop:order?format=range&up_to=1&namespace=a%26b',
  );
  assert.equal(request.method, 'POST');
  assert.equal(request.redirect, 'error');
  assert.equal(request.credentials, 'omit');
  assert.equal(request.body, undefined);
  assert.deepEqual(request.headers, {
    Accept: 'application/json',
    'User-Agent': 'raindrop-js/0.1.0',
    Authorization: 'Bearer raindrop_1',
  });
});

test('a token function is called for each request', async (t) => {
  let calls = 0;
  const { client, service } = open(t, { token: async () => `token-${++calls}` });
  await client.next('a');
  await client.next('b');
  assert.deepEqual(
    service.requests.map(({ request }) => request.headers.Authorization),
    ['Bearer token-1', 'Bearer token-2'],
  );
});

test('callers of one turn share one request', async (t) => {
  const { client, service } = open(t);
  const ids = await Promise.all(Array.from({ length: 300 }, () => client.next('order')));
  assert.equal(new Set(ids).size, 300);
  assert.equal(service.requests[0].upTo, 300);
});

test('codes have buffers of their own', async (t) => {
  const { client, service } = open(t);
  await Promise.all([client.next('a'), client.next('b')]);
  assert.deepEqual(
    service.requests.map(({ url }) => url.pathname),
    ['/ids/a', '/ids/b'],
  );
});

test('rows with repeat and stride come in order', async (t) => {
  const { client, service } = open(t);
  service.answer = () =>
    answerOf(1, 1n, {
      ranges: [
        { first: '1', last: '1', step: '1', count: 1 },
        { first: '10', last: '224', step: '2', count: 3, repeat: 3, stride: '105' },
        { first: '1000', last: '1000', step: '1', count: 1 },
      ],
    });
  const ids = await client.nextMany('order', 11);
  assert.deepEqual(ids, [1n, 10n, 12n, 14n, 115n, 117n, 119n, 220n, 222n, 224n, 1000n]);
});

test('the same rows come one by one', async (t) => {
  const { client, service } = open(t, { minRange: 7 });
  service.answer = () =>
    answerOf(1, 1n, {
      ranges: [{ first: '5', last: '26', step: '1', count: 2, repeat: 3, stride: '10' }],
    });
  const order = client.code('order');
  const ids = [await order.next()];
  service.answer = () => problem(503, 'lease_unavailable');
  for (let id; (id = order.tryNext()) !== undefined;) ids.push(id);
  assert.deepEqual(ids, [5n, 6n, 15n, 16n, 25n, 26n]);
});

test('nextMany gathers several answers', async (t) => {
  const { client, service } = open(t);
  service.answer = (upTo) => service.issue(Math.min(upTo, 40));
  const ids = await client.nextMany('order', 100);
  assert.equal(ids.length, 100);
  assert.ok(isAscending(ids));
  assert.ok(service.requests.length >= 3);
});

test('nextMany ascends when the next node has lower IDs', async (t) => {
  const { client, service } = open(t);
  const answers = [answerOf(2, 500n), answerOf(2, 100n)];
  service.answer = () => answers[service.requests.length - 1] ?? problem(503, 'lease_unavailable');
  assert.deepEqual(await client.nextMany('order', 4), [100n, 101n, 500n, 501n]);
});

test('a nextMany that fails takes nothing', async (t) => {
  const { client, service } = open(t);
  service.answer = () =>
    service.requests.length === 1 ? answerOf(2, 500n) : problem(503, 'lease_unavailable');
  await assert.rejects(client.nextMany('order', 4), kind('problem'));
  assert.equal(client.tryNext('order'), 500n);
});

test('a nextMany that waits keeps nobody waiting who wants fewer', async (t) => {
  const { client, service } = open(t, { minRange: 500 });
  const first = await client.next('order');
  service.answer = () => problem(503, 'lease_unavailable', { 'retry-after': '5' });
  await assert.rejects(client.nextMany('order', 1000), kind('problem'));
  const many = client.nextMany('order', 1000, { deadline: 10_000 });
  await settle();
  assert.equal(await client.next('order', { deadline: 2000 }), first + 1n);
  assert.deepEqual(await client.nextMany('order', 2, { deadline: 2000 }), [first + 2n, first + 3n]);
  assert.equal(await client.nextText('order', { deadline: 0 }), `${first + 4n}`);
  client.close();
  await assert.rejects(many, kind('closed'));
});

test('an answer that is too small for a nextMany serves those behind it who want fewer', async (t) => {
  const { client, service } = open(t);
  service.answer = () =>
    service.requests.length === 1 ? answerOf(40) : problem(503, 'lease_unavailable');
  const calls = [100, 1, 50, 30, 1].map((n) => client.nextMany('order', n));
  const [hundred, one, fifty, thirty, last] = await Promise.allSettled(calls);
  for (const { reason } of [hundred, fifty]) assert.ok(kind('problem')(reason));
  assert.deepEqual(one.value, [252201579132751872n]);
  assert.equal(thirty.value.length, 30);
  assert.deepEqual(last.value, [252201579132751903n]);
});

test('text has the prefix of its answer', async (t) => {
  const { client, service } = open(t);
  service.answer = (upTo) => service.issue(upTo, { prefix: 'ORD-' });
  assert.equal(await client.nextText('order'), 'ORD-252201579132751872');
  assert.deepEqual(await client.nextTextMany('order', 2), [
    'ORD-252201579132751873',
    'ORD-252201579132751874',
  ]);
});

test('a text has the prefix of its own answer', async (t) => {
  const { client, service } = open(t, { minRange: 4 });
  let answers = 0;
  service.answer = (upTo) => service.issue(Math.min(upTo, 4), { prefix: `${++answers}-` });
  const prefixes = (texts) => texts.map((text) => text.slice(0, 2));
  const texts = await client.nextTextMany('order', 6);
  assert.deepEqual(prefixes(texts), ['1-', '1-', '1-', '1-', '2-', '2-']);
  // Those that are left of the second answer come before those of the third.
  assert.deepEqual(prefixes(await client.nextTextMany('order', 3)), ['2-', '2-', '3-']);
  const single = [];
  while (single.length < 4) single.push(await client.nextText('order'));
  assert.deepEqual(prefixes(single), ['3-', '3-', '3-', '4-']);
});

test('an answer that came too late does not come again', async (t) => {
  const urls = ['late', 'again', 'well'].map((host) => `http://${host}.example.org`);
  const { client, clock, service, events } = open(t, { urls, minRange: 10 });
  let late;
  service.answer = (upTo, { hostname }) => {
    if (hostname === 'again.example.org') return late;
    const answer = service.issue(upTo);
    if (hostname === 'late.example.org') {
      late = answer;
      clock.pass(10_000);
    }
    return answer;
  };
  assert.equal(await client.next('order'), 252201579132751872n + 10n);
  const kinds = events.filter(({ type }) => type === 'request').map(({ error }) => error?.kind);
  assert.deepEqual(kinds, ['transport', 'invalid_answer', undefined]);
});

test('timeOf reads an ID as the last answer says', async (t) => {
  const { client } = open(t);
  assert.throws(() => client.timeOf('order', 1n), kind('usage'));
  const id = await client.next('order');
  const expected = 1735689600000 + Number(252201579132751872n >> 22n);
  assert.equal(client.timeOf('order', id).getTime(), expected);
  assert.equal(client.timeOf(client.code('order'), id).getTime(), expected);
  assert.throws(() => client.timeOf('order', 2n ** 63n), kind('usage'));
  assert.throws(() => client.timeOf('order', Number(id)), kind('usage'));
});

test('tryNext starts a refill when the buffer is empty', async (t) => {
  const { client, service } = open(t);
  assert.equal(client.tryNext('order'), undefined);
  await settle();
  assert.equal(client.tryNext('order'), 252201579132751872n);
  assert.equal(service.requests[0].upTo, 1);
});

// Sizes and rates

/** Draws at a rate for a while, in steps of 5 ms; answers arrive in between. */
async function use(clock, code, ms, perSecond) {
  let due = 0;
  let missed = 0;
  for (let i = 0; i < ms / 5; i++) {
    clock.pass(5);
    for (due += perSecond / 200; due >= 1; due--) {
      if (code.tryNext() === undefined) missed++;
    }
    for (let turn = 0; turn < 12; turn++) await undefined;
    await settleOnce();
  }
  return missed;
}

const settleOnce = () => new Promise((resolve) => setImmediate(resolve));

test('10 000 IDs a second need at most one request a second, and none is late', async (t) => {
  const { client, clock, service } = open(t);
  const order = client.code('order');
  await use(clock, order, 2000, 10_000);
  const before = service.requests.length;
  assert.equal(await use(clock, order, 10_000, 10_000), 0);
  assert.ok(service.requests.length - before <= 10, `${service.requests.length - before} requests`);
});

test('a burst of a hundred times the rate needs few requests', async (t) => {
  const { client, clock, service } = open(t);
  const order = client.code('order');
  await use(clock, order, 5000, 100);
  const before = service.requests.length;
  await use(clock, order, 2000, 10_000);
  assert.ok(service.requests.length - before <= 15, `${service.requests.length - before} requests`);
});

test('little is asked for when demand is little again', async (t) => {
  const { client, clock, service, sum } = open(t);
  const order = client.code('order');
  await use(clock, order, 3000, 10_000);
  await use(clock, order, 25_000, 10);
  assert.ok(service.requests.at(-1).upTo <= 40, `${service.requests.at(-1).upTo}`);
  const dropped = sum('dropped', 'ids');
  assert.ok(dropped > 0 && dropped <= 31_000, `${dropped}`);
});

test('below one ID a second nothing is fetched ahead', async (t) => {
  const { client, clock, service } = open(t);
  for (let i = 0; i < 5; i++) {
    await client.next('order');
    await settle();
    clock.pass(8000);
  }
  assert.deepEqual(
    service.requests.map(({ upTo }) => upTo),
    [1, 1, 1, 1, 1],
  );
});

test('a buffer that ran dry is followed by twice as many IDs', async (t) => {
  const { client, clock, service } = open(t);
  for (let i = 0; i < 8; i++) {
    await client.next('order');
    await settle();
    clock.pass(20);
  }
  assert.deepEqual(
    service.requests.map(({ upTo }) => upTo),
    [1, 2, 4, 8],
  );
});

test('sizes stay between minRange and maxRange', async (t) => {
  const { client, clock, service } = open(t, { minRange: 50, maxRange: 400 });
  await use(clock, client.code('order'), 3000, 10_000);
  const sizes = service.requests.map(({ upTo }) => upTo);
  assert.equal(Math.min(...sizes), 50);
  assert.equal(Math.max(...sizes), 400);
});

test('one request of a code is under way at any time', async (t) => {
  const { client, service } = open(t, { maxRange: 10 });
  let underWay = 0;
  service.answer = async (upTo) => {
    assert.equal(++underWay, 1);
    await settleOnce();
    underWay--;
    return service.issue(upTo);
  };
  await Promise.all(Array.from({ length: 95 }, () => client.next('order')));
  assert.ok(service.requests.length >= 10);
});

// Freshness

for (const [name, change] of [
  ['passed', (clock) => clock.pass(10_000)],
  ['passed asleep, which the steady clock does not count', (clock) => (clock.unix += 10_000)],
  [
    'passed while the wall clock was set back',
    (clock) => ((clock.at += 10_000), (clock.unix -= 3_600_000)),
  ],
]) {
  test(`no ID is handed out after maxAge ${name}`, async (t) => {
    const { client, clock, service, sum } = open(t, { minRange: 10 });
    const order = client.code('order');
    const first = await order.next();
    clock.pass(9000);
    assert.equal(order.tryNext(), first + 1n);
    change(clock);
    assert.equal(order.tryNext(), undefined);
    assert.equal(sum('dropped', 'ids'), 8);
    assert.equal(await order.next(), first + 10n);
    assert.equal(service.requests.length, 2);
  });
}

test('IDs expire by a clock whose methods need their receiver', async (t) => {
  class Clock {
    at = 1_764_322_200_000;

    steady() {
      return this.at;
    }

    wall() {
      return this.at;
    }
  }
  const clock = new Clock();
  const { client } = open(t, { clock, minRange: 10 });
  await client.next('order');
  assert.notEqual(client.tryNext('order'), undefined);
  clock.at += 10_000;
  assert.equal(client.tryNext('order'), undefined);
});

test('rows and ranges that were not begun expire, too', async (t) => {
  const { client, clock, service, sum } = open(t, { minRange: 7 });
  service.answer = () =>
    answerOf(1, 1n, {
      ranges: [
        { first: '5', last: '26', step: '1', count: 2, repeat: 3, stride: '10' },
        { first: '100', last: '100', step: '1', count: 1 },
      ],
    });
  assert.equal(await client.next('order'), 5n);
  clock.pass(10_000);
  service.answer = undefined;
  assert.equal(client.tryNext('order'), undefined);
  assert.equal(sum('dropped', 'ids'), 6);
  assert.equal(await client.next('order'), 252201579132751872n);
});

test('maxAge is reduced by the slack of the clocks', async (t) => {
  const { client, clock } = open(t, { minRange: 10 });
  await client.next('order');
  clock.pass(9949);
  assert.notEqual(client.tryNext('order'), undefined);
  clock.pass(1);
  assert.equal(client.tryNext('order'), undefined);
});

test('age counts from before the request', async (t) => {
  const { client, clock, service } = open(t, { minRange: 10 });
  const release = service.hold();
  const waiting = client.next('order');
  await settle();
  clock.pass(6000);
  release();
  await waiting;
  clock.pass(4000);
  assert.equal(client.tryNext('order'), undefined);
});

test('an answer that comes after maxAge is not used', async (t) => {
  const { client, clock, service } = open(t);
  const release = service.hold();
  const waiting = client.next('order');
  await settle();
  clock.pass(60_000);
  release();
  await assert.rejects(waiting, kind('transport'));
});

test('a pause while nextMany draws hands out nothing old', async (t) => {
  let late = 0;
  for (let pauseAt = 1; pauseAt <= 8; pauseAt++) {
    const { client, clock } = open(t, { minRange: 10 });
    const order = client.code('order');
    const first = await order.next();
    await settle();
    let readings = 0;
    const { steady } = clock;
    clock.steady = () => {
      if (++readings === pauseAt) clock.pass(60_000);
      return steady();
    };
    const ids = await order.nextMany(4);
    const expected = readings < pauseAt ? 1n : 10n;
    assert.deepEqual(
      ids,
      [0n, 1n, 2n, 3n].map((i) => first + expected + i),
      `paused at reading ${pauseAt}`,
    );
    if (readings >= pauseAt && pauseAt > 1) late++;
  }
  assert.ok(late > 0, 'no pause came after the first check');
});

test('numbers of segment mode do not expire', async (t) => {
  const { client, clock, service } = open(t, { minRange: 10 });
  service.answer = (upTo) => ({
    ...service.issue(upTo),
    layout: undefined,
    time: undefined,
    increment: '1',
  });
  const first = await client.next('invoice');
  clock.pass(86_400_000);
  assert.equal(client.tryNext('invoice'), first + 1n);
  assert.throws(() => client.timeOf('invoice', first), kind('usage'));
});

test('no ID is used after until', async (t) => {
  const { client, clock, service } = open(t, { minRange: 10 });
  // The service's clock may differ.
  const [issued_at, until] = ['2020-01-01T00:00:00Z', '2020-01-01T00:00:03Z'];
  service.answer = (upTo) => service.issue(upTo, { issued_at, until });
  await client.next('order');
  clock.pass(2999);
  assert.notEqual(client.tryNext('order'), undefined);
  clock.pass(1);
  assert.equal(client.tryNext('order'), undefined);
});

// Errors

test('a count that the service refuses is halved, and remembered', async (t) => {
  const { client, service } = open(t, { minRange: 1000 });
  const asked = () => service.requests.map(({ upTo }) => upTo);
  service.answer = (upTo) => (upTo > 300 ? problem(400, 'invalid_count') : service.issue(upTo));
  await client.next('order');
  assert.deepEqual(asked(), [1000, 500, 250]);
  await client.nextMany('order', 250);
  const later = asked().slice(3);
  assert.ok(later.length > 0 && later.every((upTo) => upTo === 250), later);
});

test('everybody who waits for a failed request gets its error', async (t) => {
  const { client, service, events } = open(t);
  service.answer = () => problem(503, 'lease_unavailable', { 'retry-after': '7' });
  const results = await Promise.allSettled(Array.from({ length: 20 }, () => client.next('order')));
  for (const { reason } of results) {
    assert.ok(kind('problem')(reason));
    const { code, status, detail, retryAfter } = reason;
    assert.deepEqual(
      { code, status, detail, retryAfter },
      {
        code: 'lease_unavailable',
        status: 503,
        detail: 'about lease_unavailable',
        retryAfter: 7000,
      },
    );
  }
  assert.equal(service.requests.length, 1);
  const waits = events.filter(
    ({ type, error }) => type === 'wait' && error?.code === 'lease_unavailable',
  );
  assert.equal(waits.length, 20);
});

test('during the pause after a failure callers get the last error at once', async (t) => {
  const { client, clock, service } = open(t);
  service.answer = () => problem(429, 'too_many_requests', { 'retry-after': '60' });
  await assert.rejects(client.next('order'), kind('problem'));
  clock.pass(7_000);
  await assert.rejects(client.next('order'), { code: 'too_many_requests' });
  assert.equal(client.tryNext('order'), undefined);
  assert.equal(service.requests.length, 1);
  service.answer = undefined;
  clock.pass(53_000);
  assert.equal(client.tryNext('order'), undefined);
  await settle();
  assert.equal(service.requests.length, 2);
});

test('a caller that waits is reason to look again after 10 s, whatever Retry-After says', async (t) => {
  const { client, clock, service } = open(t);
  service.answer = () => problem(503, 'overloaded', { 'retry-after': '99999999999999999999' });
  await assert.rejects(client.next('order'), { code: 'overloaded', retryAfter: 60_000 });
  service.answer = undefined;
  clock.pass(10_000);
  assert.equal(client.tryNext('order'), undefined);
  await settle();
  assert.equal(service.requests.length, 1);
  await client.next('order');
  assert.equal(service.requests.length, 2);
});

test('a caller waits if the pause ends before its deadline', async (t) => {
  const { client, service } = open(t, { clock: undefined });
  service.answer = (upTo) =>
    service.requests.length < 3 ? problem(503, 'lease_unavailable') : service.issue(upTo);
  assert.equal(typeof (await client.next('order', { deadline: 60_000 })), 'bigint');
  assert.equal(service.requests.length, 3);
});

test('a caller whose time is over before the next attempt gets the last error', async (t) => {
  const { client, service } = open(t, { clock: undefined });
  service.answer = () => json('{"ranges":[');
  await assert.rejects(client.next('order', { deadline: 500 }), kind('invalid_answer'));
  assert.ok(service.requests.length > 1);
});

test('a request is repeated on a new connection if a kept one was dropped', async (t) => {
  const { client, service } = open(t);
  service.answer = (upTo) => {
    if (service.requests.length % 2 === 1)
      throw new TypeError('fetch failed', { cause: { code: 'ECONNRESET' } });
    return service.issue(upTo);
  };
  for (let i = 0; i < 3; i++) await client.next(`code-${i}`, { deadline: 60_000 });
  assert.equal(service.requests.length, 6);
});

test('a failed refill is logged once a minute', async (t) => {
  const messages = [];
  const { client, clock, service } = open(t, { log: (message) => messages.push(message) });
  service.answer = () => problem(404, 'unknown_code');
  for (const code of ['a', 'b']) await assert.rejects(client.next(code), kind('problem'));
  clock.pass(60_000);
  await assert.rejects(client.next('c'), kind('problem'));
  assert.deepEqual(
    messages,
    ['a', 'c'].map(
      (code) => `raindrop: refill of code ${code} failed: unknown_code (404): about unknown_code`,
    ),
  );
});

test('warmUp fetches IDs and takes none', async (t) => {
  const { client, service } = open(t, { minRange: 3 });
  await client.warmUp('order');
  await client.warmUp('order');
  assert.equal(client.tryNext('order'), 252201579132751872n);
  assert.equal(service.requests.length, 1);
  service.answer = () => problem(404, 'unknown_code');
  await assert.rejects(client.warmUp('other'), kind('problem'));
});

test('many callers may share a signal', async (t) => {
  const { client, service } = open(t);
  const release = service.hold();
  const controller = new AbortController();
  const calls = Array.from({ length: 50 }, () =>
    client.next('order', { signal: controller.signal }),
  );
  await settle();
  assert.equal(getEventListeners(controller.signal, 'abort').length, 1);
  const other = client.next('order');
  controller.abort(new Error('enough'));
  for (const call of calls) await assert.rejects(call, kind('cancelled'));
  assert.equal(getEventListeners(controller.signal, 'abort').length, 0);
  release();
  assert.equal(typeof (await other), 'bigint');
});

test('a request leaves time for the next base URL', async (t) => {
  const service = new FakeService();
  const fetch = (url, request) =>
    url.startsWith('http://a.') ? new Promise(() => {}) : service.fetch(url, request);
  const urls = ['http://a.example.org', 'http://b.example.org'];
  const { client } = open(t, { clock: undefined, fetch, urls, deadline: 2000 });
  assert.equal(typeof (await client.next('order', { deadline: 4500 })), 'bigint');
});

test('the pause grows to 10 s, and begins anew after a success', async (t) => {
  const { client, clock, service } = open(t);
  const order = client.code('order');
  /** Returns how long the client pauses before its next request. */
  const pause = async () => {
    const before = clock.at;
    for (const { length } = service.requests; service.requests.length === length; await settle()) {
      clock.pass(20);
      order.tryNext();
    }
    return clock.at - before;
  };
  service.answer = () => problem(500, 'internal');
  await pause();
  const pauses = [];
  for (let i = 0; i < 9; i++) pauses.push(await pause());
  for (const [i, longest] of [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000].entries()) {
    assert.ok(pauses[i] >= longest / 2 && pauses[i] <= longest + 20, `pause ${i}: ${pauses[i]} ms`);
  }
  service.answer = undefined;
  await pause();
  service.answer = () => problem(500, 'internal');
  while (order.tryNext() !== undefined);
  await settle();
  assert.ok((await pause()) <= 120);
});

test('IDs in the buffer are handed out while refills fail', async (t) => {
  const { client, clock, service } = open(t, { minRange: 1000 });
  const order = client.code('order');
  await order.next();
  service.answer = () => problem(503, 'store_unavailable');
  assert.equal(await use(clock, order, 990, 1000), 0);
  assert.ok(service.requests.length > 1);
});

test('a hanging service leaves each caller its own deadline', async (t) => {
  const { client, service, events } = open(t, { clock: undefined });
  service.hold();
  await assert.rejects(
    Promise.race([
      client.next('order', { deadline: 20 }),
      client.next('order', { deadline: 60_000 }),
    ]),
    kind('deadline'),
  );
  await assert.rejects(client.nextMany('order', 3, { deadline: 0 }), kind('deadline'));
  assert.equal(
    events.filter(({ type, error }) => type === 'wait' && error.kind === 'deadline').length,
    2,
  );
});

test('a request that takes too long fails those who wait, even if fetch ignores its signal', async (t) => {
  const { client } = open(t, {
    clock: undefined,
    requestTimeout: 20,
    fetch: () => new Promise(() => {}),
  });
  await assert.rejects(client.next('order', { deadline: 500 }), kind('transport'));
});

test('a late answer of a request that was given up is not used', async (t) => {
  let answer;
  const { client, service } = open(t, {
    clock: undefined,
    requestTimeout: 20,
    fetch: () => new Promise((resolve) => (answer ??= resolve)),
  });
  await assert.rejects(client.next('order', { deadline: 500 }), kind('transport'));
  answer(json(service.issue(1)));
  await settle();
  assert.equal(client.tryNext('order'), undefined);
});

for (const [name, break_, expected] of [
  [
    'the token function throws',
    (options) =>
      (options.token = () => {
        throw new Error('no token today');
      }),
    'transport',
  ],
  [
    'the token function hangs',
    (options) => (options.token = () => new Promise(() => {})),
    'transport',
  ],
  [
    'the token function throws no error',
    (options) =>
      (options.token = () => {
        throw Symbol('odd');
      }),
    'transport',
  ],
  [
    'onEvent throws',
    (options) =>
      (options.onEvent = () => {
        throw new Error('no metrics today');
      }),
    'usage',
  ],
  [
    'onEvent throws the error of the event',
    (options) => {
      options.onEvent = ({ error }) => {
        throw error ?? new RaindropError('transport', 'of the hook');
      };
    },
    'usage',
  ],
  [
    'onEvent rejects',
    (options) =>
      (options.onEvent = async () => {
        throw new Error('no metrics today');
      }),
    'usage',
  ],
  [
    'fetch throws at once',
    (options) =>
      (options.fetch = () => {
        throw new Error('no network today');
      }),
    'transport',
  ],
  ['fetch returns nothing', (options) => (options.fetch = async () => undefined), 'transport'],
]) {
  test(`a refill dies because ${name}: its callers learn it, and the next call starts another`, async (t) => {
    const service = new FakeService();
    const broken = { token: 'a', onEvent: undefined, fetch: service.fetch };
    break_(broken);
    let current = broken;
    const client = new Raindrop({
      urls: URLS,
      requestTimeout: 50,
      token: () => (typeof current.token === 'function' ? current.token() : current.token),
      onEvent: (event) => current.onEvent?.(event),
      fetch: (...request) => current.fetch(...request),
    });
    t.after(() => client.close());
    await assert.rejects(client.next('order', { deadline: 500 }), kind(expected));
    current = { token: 'a', fetch: service.fetch };
    assert.equal(typeof (await client.next('order', { deadline: 60_000 })), 'bigint');
  });
}

test('a hook that rejects late fails the next refill', async (t) => {
  let reject;
  const onEvent = () =>
    reject === undefined ? new Promise((_, fail) => (reject = fail)) : undefined;
  const { client } = open(t, { clock: undefined, onEvent });
  await client.next('order');
  await settle();
  const cause = new Error('no metrics today');
  reject(cause);
  await assert.rejects(
    client.next('other'),
    (error) => kind('usage')(error) && error.cause === cause,
  );
  assert.equal(typeof (await client.next('other', { deadline: 60_000 })), 'bigint');
});

test('a hook that draws an ID for each failed wait waits for the next refill', async (t) => {
  const drawn = [];
  const onEvent = ({ type }) =>
    type === 'wait' &&
    drawn.length < 9 &&
    drawn.push(client.next('order').catch(({ kind }) => kind));
  const { client, service } = open(t, { onEvent });
  service.answer = () => problem(503, 'lease_unavailable');
  await assert.rejects(client.next('order'), kind('problem'));
  await settle();
  assert.equal(drawn.length, 1);
  client.close();
  assert.equal(await drawn[0], 'closed');
});

test('a hook that closes the client while callers are served fails the others', async (t) => {
  const { client } = open(t, { onEvent: ({ type }) => type === 'wait' && client.close() });
  const [first, ...others] = await Promise.allSettled([
    client.next('order'),
    client.next('order'),
    client.nextMany('order', 2),
  ]);
  assert.equal(first.value, 252201579132751872n);
  for (const { reason } of others) assert.ok(kind('closed')(reason));
});

test('each failure reaches the hook and the next caller', async (t) => {
  const { client, clock, service, events } = open(t, { minRange: 10 });
  await client.next('order');
  service.answer = () => json('{"ranges":[]}');
  assert.equal(client.code('order').tryNext(), 252201579132751873n);
  clock.pass(1);
  for (let i = 0; i < 8; i++) client.tryNext('order');
  await settle();
  client.tryNext('order');
  await settle();
  const failed = events.filter(({ type, error }) => type === 'request' && error);
  assert.equal(failed.length, 1);
  assert.equal(failed[0].error.kind, 'invalid_answer');
  await assert.rejects(client.next('order', { deadline: 0 }), (error) => error === failed[0].error);
});

test('a cancelled caller leaves, and the others stay', async (t) => {
  const { client, service } = open(t);
  const release = service.hold();
  const controller = new AbortController();
  const cancelled = client.next('order', { signal: controller.signal });
  const other = client.next('order');
  const why = new Error('the page was left');
  controller.abort(why);
  await assert.rejects(cancelled, (error) => kind('cancelled')(error) && error.cause === why);
  const { signal } = new AbortController();
  const third = client.next('order', { signal });
  release();
  assert.equal(await other, 252201579132751872n);
  await third;
  assert.deepEqual(getEventListeners(signal, 'abort'), []);
  await assert.rejects(client.next('order', { signal: controller.signal }), kind('cancelled'));
});

test('a closed client fails those who wait and every later call', async (t) => {
  const { client, service, events, sum } = open(t, { minRange: 10 });
  const order = client.code('order');
  await order.next();
  service.hold();
  const waiting = [client.next('other'), client.nextMany('other', 3)];
  await settle();
  client.close();
  client.close();
  for (const call of waiting) await assert.rejects(call, kind('closed'));
  assert.throws(() => order.tryNext(), kind('closed'));
  assert.throws(() => client.code('new'), kind('closed'));
  await assert.rejects(order.next(), kind('closed'));
  await assert.rejects(order.nextMany(2), kind('closed'));
  await assert.rejects(client.nextText('order'), kind('closed'));
  await settle();
  assert.equal(
    events.filter(({ type, error }) => type === 'request' && error?.kind === 'closed').length,
    1,
  );
  assert.equal(sum('dropped', 'ids'), 9);
  const { length } = service.requests;
  await settle();
  assert.equal(service.requests.length, length);
});

test('a client that is closed at once sends nothing', async (t) => {
  const { client, service } = open(t);
  const waiting = client.next('order');
  client.close();
  await assert.rejects(waiting, kind('closed'));
  await settle();
  assert.equal(service.requests.length, 0);
});

test('the next base URL is tried at once, and the one that answered stays first', async (t) => {
  const { client, service } = open(t, {
    urls: ['http://a.example.org', 'http://b.example.org', 'http://c.example.org'],
  });
  const down = new Set(['a.example.org']);
  service.answer = (upTo, url) => {
    if (down.has(url.host)) throw new TypeError('fetch failed');
    return service.issue(upTo);
  };
  await client.next('x');
  await client.next('y');
  down.add('b.example.org');
  await client.next('z');
  assert.equal(service.requests.map(({ url }) => url.host[0]).join(''), 'abbbac');
});

for (const [status, code, hosts] of [
  [503, 'lease_unavailable', 'ab'],
  [404, 'unknown_code', 'a'],
  [403, 'forbidden', 'a'],
  [422, 'unprocessable', 'a'],
  [401, 'unauthorized', 'ab'],
  [429, 'too_many_requests', 'ab'],
  [500, 'internal', 'ab'],
]) {
  test(`${status} ${code} asks ${hosts.length} of two base URLs`, async (t) => {
    const { client, service } = open(t, { urls: ['http://a.example.org', 'http://b.example.org'] });
    service.answer = () => problem(status, code, { 'retry-after': '30' });
    await assert.rejects(client.next('order'), { kind: 'problem', code, status });
    assert.equal(service.requests.map(({ url }) => url.host[0]).join(''), hosts);
  });
}

const refuse = () => {
  throw new TypeError('fetch failed');
};
const unavailable = (seconds) => () =>
  problem(503, 'store_unavailable', { 'retry-after': `${seconds}` });
const forbidden = () => problem(403, 'forbidden', { 'retry-after': '60' });

for (const [name, answers, steps] of [
  [
    'leaves its URL out, and the others are asked after the back-off',
    { a: refuse, b: unavailable(50) },
    [
      [0, 'ab'],
      [200, 'a'],
      [49_000, 'a'],
      [800, 'ab'],
    ],
  ],
  [
    'of every URL makes the client pause for the shortest',
    { a: unavailable(5), b: unavailable(20) },
    [
      [0, 'ab'],
      [4999, ''],
      [1, 'a'],
      [5000, 'a'],
      [5000, 'a'],
      [5000, 'ab'],
    ],
  ],
  [
    'of an answer that ends the refill concerns every URL',
    { a: refuse, b: forbidden },
    [
      [0, 'ab'],
      [59_999, ''],
      [1, 'ab'],
    ],
  ],
]) {
  test(`a Retry-After ${name}`, async (t) => {
    const { client, clock, service } = open(t, {
      urls: ['http://a.example.org', 'http://b.example.org'],
    });
    service.answer = (_, url) => answers[url.host[0]]();
    for (const [i, [ms, hosts]] of steps.entries()) {
      clock.pass(ms);
      const before = service.requests.length;
      client.tryNext('order');
      await settle();
      assert.equal(
        service.requests
          .slice(before)
          .map(({ url }) => url.host[0])
          .join(''),
        hosts,
        `step ${i + 1}`,
      );
    }
  });
}

test('a Retry-After leaves its URL out after a success of another one, too', async (t) => {
  const { client, clock, service } = open(t, {
    urls: ['http://a.example.org', 'http://b.example.org'],
  });
  const answers = { a: unavailable(30), b: () => service.issue(1) };
  service.answer = (_, url) => answers[url.host[0]]();
  await client.next('order');
  Object.assign(answers, { a: () => service.issue(1), b: refuse });
  await assert.rejects(client.next('order'), kind('transport'));
  clock.pass(30_000);
  await client.next('order');
  assert.equal(service.requests.map(({ url }) => url.host[0]).join(''), 'abbba');
});

for (const [name, response, expected] of [
  [
    'an error page of a proxy',
    () => json('<html>', { status: 502, type: 'text/html' }),
    { kind: 'transport', status: 502 },
  ],
  [
    'a problem without a code',
    () => json('{}', { status: 500, type: 'application/problem+json' }),
    { kind: 'transport', status: 500 },
  ],
  [
    'half a problem',
    () => json('{"code":', { status: 500, type: 'application/problem+json' }),
    { kind: 'transport', status: 500 },
  ],
  ['a login page', () => json('<html>', { type: 'text/html' }), { kind: 'invalid_answer' }],
  ['another status', () => json(answerOf(1), { status: 206 }), { kind: 'transport', status: 206 }],
  ['no content', () => new Response(null, { status: 204 }), { kind: 'transport', status: 204 }],
  ['more than was asked for', (upTo) => json(answerOf(upTo + 1)), { kind: 'invalid_answer' }],
]) {
  test(`refused: ${name}`, async (t) => {
    const { client, service } = open(t);
    service.answer = response;
    await assert.rejects(client.next('order'), expected);
    assert.equal(client.tryNext('order'), undefined);
  });
}

test('an answer that came before is refused, whatever came between', async (t) => {
  const { client, service } = open(t);
  await client.nextMany('order', 5);
  await client.nextMany('order', 50);
  service.answer = () => answerOf(5);
  while (client.tryNext('order') !== undefined);
  await settle();
  await assert.rejects(client.next('order', { deadline: 0 }), {
    kind: 'invalid_answer',
    message: /an earlier answer/,
  });
  service.answer = undefined;
  assert.equal(await client.next('other'), service.next - 1n);
});

test('wrong arguments are errors of kind usage', async (t) => {
  const { client, service } = open(t, { maxRange: 100 });
  for (const options of [
    undefined,
    null,
    {},
    { urls: [] },
    { urls: ['nonsense'] },
    { urls: ['ftp://a.example.org'] },
    { urls: ['http://a.example.org?x=1'] },
    { urls: ['http://u:p@a.example.org'] },
    { urls: URLS, target: 0 },
    { urls: URLS, maxAge: 5 },
    { urls: URLS, minRange: 0 },
    { urls: URLS, minRange: 10, maxRange: 9 },
    { urls: URLS, deadline: -1 },
    { urls: URLS, requestTimeout: Infinity },
    { urls: URLS, token: 7 },
    { urls: URLS, fetch: 'no' },
    { urls: URLS, onEvent: {} },
  ]) {
    assert.throws(() => new Raindrop(options), kind('usage'), JSON.stringify(options));
  }
  for (const code of [
    '',
    '.',
    '..',
    'a/b',
    '-a',
    'a b',
    'ä',
    'x'.repeat(65),
    undefined,
    7,
    Symbol('x'),
  ]) {
    await assert.rejects(client.next(code), kind('usage'), String(code));
    assert.throws(() => client.tryNext(code), kind('usage'), String(code));
  }
  for (const n of [0, -1, 1.5, 101, NaN, 3n, '3'])
    await assert.rejects(client.nextMany('order', n), kind('usage'), String(n));
  for (const deadline of [-1, NaN, Infinity, 'soon', 5n])
    await assert.rejects(client.next('order', { deadline }), kind('usage'));
  assert.equal(service.requests.length, 0);
});
