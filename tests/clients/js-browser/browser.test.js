// The JavaScript client in Chromium: a page of one origin, the service at another one, with a token.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { chromium } from 'playwright-core';

import { startService, TOKEN } from '../service.mjs';

const SOURCES = new URL('../../../clients/js/dist/esm/', import.meta.url);
const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-background-networking',
  '--disable-component-update',
];
FLAGS.push('--disable-sync', '--no-first-run');

const WORKER = `
  import { Raindrop } from './src/index.js';
  onmessage = async ({ data: { url, token, n } }) => {
    postMessage(await new Raindrop({ urls: [url], token }).nextMany('order', n));
  };
`;

/** Serves an empty page, a worker and the client's modules; returns its server and origin. */
async function servePage() {
  const server = createServer(async (request, response) => {
    if (request.url === '/')
      return response.writeHead(200, { 'content-type': 'text/html' }).end('<!doctype html>');
    const [, module] = request.url.match(/^\/src\/(\w+\.js)$/) ?? [];
    if (module === undefined && request.url !== '/worker.js') return response.writeHead(404).end();
    response.setHeader('content-type', 'text/javascript');
    response.end(module === undefined ? WORKER : await readFile(new URL(module, SOURCES)));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { server, origin: `http://127.0.0.1:${server.address().port}` };
}

let allowed, stranger, service, browser;

before(async () => {
  allowed = await servePage();
  stranger = await servePage();
  service = await startService({ http: `cors_origins = "${allowed.origin}"`, tokens: true });
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: FLAGS,
  });
});

after(async () => {
  await browser?.close();
  await service?.stop();
  allowed?.server.close();
  stranger?.server.close();
});

/** Opens a page that has `open(options)`, a client of the service, and `failure(promise)`. */
async function visit(t, { origin } = allowed) {
  const page = await browser.newPage();
  t.after(() => page.close());
  await page.goto(origin);
  await page.evaluate(async (url) => {
    const { Raindrop, RaindropError } = await import('./src/index.js');
    window.open = (options) => new Raindrop({ urls: [url], deadline: 20_000, ...options });
    window.failure = (promise) =>
      promise.then(
        () => 'none',
        (error) => {
          const { kind, code, status } = error;
          return { isTyped: error instanceof RaindropError, kind, code, status };
        },
      );
  }, service.url);
  return page;
}

test('a page draws IDs and texts, none of them twice', async (t) => {
  const page = await visit(t);
  const { ids, texts, age } = await page.evaluate(async (token) => {
    const [one, two] = [open({ token }), open({ token: async () => token })];
    const ids = [await one.next('order'), await two.next('order')];
    const age = Date.now() - one.timeOf('order', ids[0]).getTime();
    for (let i = 0; i < 10; i++)
      ids.push(...(await one.nextMany('order', 1000)), ...(await two.nextMany('order', 1000)));
    for (let i = 0; i < 1000; i++) ids.push(one.tryNext('order') ?? (await one.next('order')));
    const texts = [await one.nextText('order'), ...(await two.nextTextMany('order', 100))];
    one.close();
    two.close();
    return { ids, texts, age };
  }, TOKEN);
  assert.ok(ids.every((id) => typeof id === 'bigint'));
  assert.ok(texts.every((text) => /^ORD-\d+$/.test(text)));
  const all = [...ids, ...texts.map((text) => BigInt(text.slice('ORD-'.length)))];
  assert.equal(new Set(all).size, 21_103);
  assert.ok(age > -1000 && age < 20_000, `${age} ms`);
});

test('a page draws UUIDs, which ascend', async (t) => {
  const page = await visit(t);
  const uuids = await page.evaluate(async (token) => {
    const client = open({ token });
    return [await client.nextUuid('order'), ...(await client.nextUuidMany('order', 1000))];
  }, TOKEN);
  assert.deepEqual(uuids, [...new Set(uuids)].sort());
  assert.match(uuids[0], /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
});

test('a page and its worker have buffers of their own', async (t) => {
  const page = await visit(t);
  const ids = await page.evaluate(
    async ([url, token]) => {
      const worker = new Worker('./worker.js', { type: 'module' });
      const answer = new Promise((resolve) => (worker.onmessage = ({ data }) => resolve(data)));
      worker.postMessage({ url, token, n: 1000 });
      const own = await open({ token }).nextMany('order', 1000);
      return [...own, ...(await answer)];
    },
    [service.url, TOKEN],
  );
  assert.equal(new Set(ids).size, 2000);
});

for (const [what, token] of [
  ['no token', undefined],
  ['a wrong token', 'raindrop_wrong'],
]) {
  test(`with ${what} the page gets the service's refusal`, async (t) => {
    const page = await visit(t);
    const error = await page.evaluate(
      (given) => failure(open({ token: given }).next('order')),
      token,
    );
    assert.deepEqual(error, { isTyped: true, kind: 'problem', code: 'unauthorized', status: 401 });
  });
}

test('a page of an origin that is not allowed gets nothing', async (t) => {
  const page = await visit(t, stranger);
  const error = await page.evaluate((token) => failure(open({ token }).next('order')), TOKEN);
  assert.equal(error.kind, 'transport');
});

/** Fills a buffer whose IDs live for 1 s, lets `suspend` stop the page for longer, and draws. */
async function drawAfter(page, suspend) {
  await page.evaluate(async (token) => {
    window.dropped = 0;
    const onEvent = ({ type, ids }) => (window.dropped += type === 'dropped' ? ids : 0);
    window.client = open({ token, minRange: 100, maxAge: 1000, onEvent });
    await client.next('order');
  }, TOKEN);
  await suspend();
  return page.evaluate(async () => {
    const woken = Date.now();
    const [kept, { dropped }] = [client.tryNext('order'), window];
    return { kept, dropped, age: woken - client.timeOf('order', await client.next('order')) };
  });
}

function assertFresh({ kept, dropped, age }) {
  assert.equal(kept, undefined);
  assert.equal(dropped, 99);
  assert.ok(age < 1000, `${age} ms`);
}

test('after a page was frozen, it hands out no ID from before', async (t) => {
  const page = await visit(t);
  const session = await page.context().newCDPSession(page);
  assertFresh(
    await drawAfter(page, async () => {
      await session.send('Page.setWebLifecycleState', { state: 'frozen' });
      await sleep(1500);
      await session.send('Page.setWebLifecycleState', { state: 'active' });
    }),
  );
});

test('after its thread was blocked, a page hands out no ID from before', async (t) => {
  const page = await visit(t);
  assertFresh(
    await drawAfter(page, () =>
      page.evaluate(() => {
        for (const ends = Date.now() + 1500; Date.now() < ends;);
      }),
    ),
  );
});
