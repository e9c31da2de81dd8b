// The client on real connections.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import test from 'node:test';
import { promisify } from 'node:util';

import { Raindrop } from '../dist/esm/index.js';
import { FakeService } from './support.js';

/** Starts a server that answers with `handle`; returns its base URL. */
async function serve(t, handle) {
  const server = createServer(handle).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${server.address().port}`;
}

function open(t, url, options) {
  const client = new Raindrop({ urls: [url], requestTimeout: 20_000, ...options });
  t.after(() => client.close());
  return client;
}

const upTo = (request) =>
  Number(new URL(request.url, 'http://localhost').searchParams.get('up_to'));

const service = new FakeService();

function answer(request, response) {
  response.setHeader('content-type', 'application/json; charset=utf-8');
  response.end(JSON.stringify(service.issue(upTo(request))));
}

test('a request has no body and the token', async (t) => {
  let seen;
  const url = await serve(t, (request, response) => {
    seen = request;
    answer(request, response);
  });
  await open(t, url, { token: 'raindrop_1' }).next('order');
  assert.equal(seen.method, 'POST');
  assert.equal(seen.headers['content-length'], '0');
  assert.equal(seen.headers['content-type'], undefined);
  assert.equal(seen.headers.authorization, 'Bearer raindrop_1');
  assert.equal(seen.headers.accept, 'application/json');
});

test('a redirect is not followed', async (t) => {
  let followed = 0;
  const other = await serve(t, (request, response) => {
    followed++;
    answer(request, response);
  });
  const url = await serve(t, (request, response) =>
    response.writeHead(307, { location: other + request.url }).end(),
  );
  await assert.rejects(open(t, url, { token: 'secret' }).next('order', { deadline: 20_000 }), {
    kind: 'transport',
  });
  assert.equal(followed, 0);
});

test('an answer above 1 MiB is refused', async (t) => {
  const url = await serve(t, (request, response) => {
    response.setHeader('content-type', 'application/json');
    response.on('error', () => {});
    response.end(`{"ranges":[],"filling":"${'x'.repeat(1024 * 1024)}"}`);
  });
  await assert.rejects(open(t, url).next('order', { deadline: 20_000 }), {
    kind: 'invalid_answer',
    message: /1 MiB/,
  });
});

test('an endless answer is refused', async (t) => {
  const url = await serve(t, (request, response) => {
    response.setHeader('content-type', 'application/json');
    response.on('error', () => {});
    const piece = ' '.repeat(64 * 1024);
    const more = () => {
      while (!response.destroyed && response.write(piece));
    };
    response.on('drain', more);
    more();
  });
  await assert.rejects(open(t, url).next('order', { deadline: 20_000 }), {
    kind: 'invalid_answer',
    message: /1 MiB/,
  });
});

test('half an answer is not used', async (t) => {
  const url = await serve(t, (request, response) => {
    const text = JSON.stringify(service.issue(upTo(request)));
    response.writeHead(200, {
      'content-type': 'application/json',
      'content-length': text.length + 1,
    });
    response.write(text, () => response.destroy());
  });
  const client = open(t, url);
  await assert.rejects(client.next('order', { deadline: 20_000 }), { kind: 'transport' });
  assert.equal(client.tryNext('order'), undefined);
});

test('a request is not repeated unseen once its answer has begun', async (t) => {
  let requests = 0;
  const url = await serve(t, (request, response) => {
    if (requests++ > 0) return answer(request, response);
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': 1000 });
    response.write('{', () => response.destroy());
  });
  const failed = [];
  const client = open(t, url, {
    onEvent: ({ error }) => error !== undefined && failed.push(error.kind),
  });
  assert.equal(typeof (await client.next('order', { deadline: 20_000 })), 'bigint');
  assert.deepEqual(failed, ['transport']);
});

test('a connection that nobody accepts fails over to the next base URL', async (t) => {
  const gone = createServer().listen(0, '127.0.0.1');
  await once(gone, 'listening');
  const { port } = gone.address();
  gone.close();
  await once(gone, 'close');
  const url = await serve(t, answer);
  const client = open(t, url, { urls: [`http://127.0.0.1:${port}`, url] });
  assert.equal(typeof (await client.next('order', { deadline: 20_000 })), 'bigint');
});

test('a service that comes back is found', async (t) => {
  let isDown = true;
  const url = await serve(t, (request, response) => {
    if (isDown) request.socket.destroy();
    else answer(request, response);
  });
  const client = open(t, url);
  await assert.rejects(client.next('order', { deadline: 20_000 }), { kind: 'transport' });
  isDown = false;
  assert.equal(typeof (await client.next('order', { deadline: 20_000 })), 'bigint');
});

const child = (script, url) =>
  promisify(execFile)(
    process.execPath,
    [
      '--input-type=module',
      '--eval',
      script,
      '--',
      new URL('../dist/esm/index.js', import.meta.url).href,
      url,
    ],
    { timeout: 60_000 },
  );

const OPEN = `
  const [module, url] = process.argv.slice(-2);
  const { Raindrop } = await import(module);
`;

test('a process ends without close()', async (t) => {
  const url = await serve(t, answer);
  const { stdout } = await child(
    `${OPEN}
    const client = new Raindrop({ urls: [url], deadline: 50_000, requestTimeout: 86_400_000 });
    console.log(await client.next('order'), await client.nextMany('order', 3));
  `,
    url,
  );
  assert.match(stdout, /^\d+n \[ \d+n, \d+n, \d+n \]\n$/);
});

test('a process does not end while a caller waits for the next attempt', async (t) => {
  let requests = 0;
  const url = await serve(t, (request, response) => {
    if (++requests === 1) response.writeHead(500, { connection: 'close' }).end();
    else answer(request, response);
  });
  const { stdout } = await child(
    `${OPEN}
    const client = new Raindrop({ urls: [url] });
    console.log(await client.next('order', { deadline: 50_000 }));
  `,
    url,
  );
  assert.match(stdout, /^\d+n\n$/);
  assert.equal(requests, 2);
});
