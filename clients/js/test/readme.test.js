// Runs the README's examples against a small service, and checks the types.

import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import test from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';

import typescript from 'typescript';

import * as api from '../dist/esm/index.js';
import { measure } from '../bench.js';
import { FakeService } from './support.js';

const folder = fileURLToPath(new URL('..', import.meta.url));
const readme = await readFile(join(folder, 'README.md'), 'utf8');
const examples = [...readme.matchAll(/^```(js|ts)\n(.*?)^```$/gms)].map(([, language, text]) => ({
  language,
  text,
}));

/** A folder inside the package, so that an example can import the package by its name. */
async function temporaryFolder(t) {
  const path = await mkdtemp(join(folder, 'test', 'tmp-'));
  t.after(() => rm(path, { recursive: true }));
  return path;
}

async function run(t, example, name) {
  const service = new FakeService();
  const traces = new Set();
  const server = createServer((request, response) => {
    traces.add(request.headers.traceparent);
    const upTo = Number(new URL(request.url, 'http://localhost').searchParams.get('up_to'));
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify(service.issue(upTo, { prefix: 'ORD-' })));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const path = join(await temporaryFolder(t), name);
  assert.match(example, /127\.0\.0\.1:8080/);
  await writeFile(path, example.replaceAll('127.0.0.1:8080', `127.0.0.1:${server.address().port}`));
  await import(pathToFileURL(path));
  assert.ok(service.next > 252201579132751872n, 'the example drew no ID');
  const traceparent = example.match(/'(00-[\da-f-]+)'/)?.[1];
  assert.deepEqual(traces, new Set([traceparent]));
}

test('the README has examples of both languages', () => {
  assert.deepEqual(new Set(examples.map(({ language }) => language)), new Set(['js', 'ts']));
});

for (const [i, { language, text }] of examples.entries()) {
  test(`example ${i + 1} of the README runs`, async (t) => {
    const { ModuleKind, ScriptTarget } = typescript;
    const compilerOptions = { module: ModuleKind.ESNext, target: ScriptTarget.ES2022 };
    const { outputText } = typescript.transpileModule(text, { compilerOptions });
    await run(t, language === 'ts' ? outputText : text, `example-${i + 1}.mjs`);
  });
}

/** Returns what the TypeScript compiler says about files of this package. */
function complaints(files, more = {}) {
  const { ModuleKind, ScriptTarget } = typescript;
  const options = {
    module: ModuleKind.NodeNext,
    target: ScriptTarget.ES2023,
    lib: ['lib.es2023.d.ts', 'lib.dom.d.ts', 'lib.dom.iterable.d.ts'],
    types: [],
    strict: true,
    noEmit: true,
  };
  const program = typescript.createProgram(files, { ...options, ...more });
  return typescript.getPreEmitDiagnostics(program).map(({ file, start, messageText }) => {
    const line = file === undefined ? 0 : file.getLineAndCharacterOfPosition(start).line + 1;
    return `${file?.fileName.slice(folder.length)}:${line}: ${typescript.flattenDiagnosticMessageText(messageText, ' ')}`;
  });
}

test('a request is sent in the asynchronous context of the call that caused it', async (t) => {
  const storage = new AsyncLocalStorage();
  const service = new FakeService();
  const stores = [];
  const client = new api.Raindrop({
    urls: ['http://127.0.0.1:8080'],
    fetch: async (url) => {
      stores.push(storage.getStore());
      const upTo = Number(new URL(url).searchParams.get('up_to'));
      return Response.json(service.issue(upTo));
    },
  });
  t.after(() => client.close());
  await storage.run('a trace', () => client.next('order'));
  assert.deepEqual(stores, ['a trace']);
});

test('the examples and the types agree', async (t) => {
  const path = await temporaryFolder(t);
  const files = await Promise.all(
    examples.map(async ({ text }, i) => {
      const file = join(path, `example-${i + 1}.mts`);
      await writeFile(file, text);
      return file;
    }),
  );
  assert.deepEqual(complaints(files), []);
});

test('a wrong type is an error, and so is what only the package may do', async (t) => {
  const file = join(await temporaryFolder(t), 'wrong.mts');
  await writeFile(
    file,
    `
    import { Code, Raindrop, RaindropError } from '@example/raindrop';
    const client = new Raindrop({ urls: ['http://127.0.0.1:8080'] });
    export const id: number = await client.next('order');
    RaindropError.of('usage', 'wrong');
    new Code('order');
  `,
  );
  const [type, internal, made, ...others] = complaints([file]);
  assert.match(type, /wrong\.mts:4: Type 'bigint' is not assignable to type 'number'/);
  assert.match(internal, /wrong\.mts:5: Property 'of' does not exist/);
  assert.match(made, /wrong\.mts:6: Constructor of class 'Code' is private/);
  assert.deepEqual(others, []);
});

test('settings that are undefined, frozen URLs and blocks that end a client have types', async (t) => {
  const file = join(await temporaryFolder(t), 'strict.mts');
  await writeFile(
    file,
    `
    import { Raindrop } from '@example/raindrop';
    const urls = ['http://127.0.0.1:8080'] as const;
    const unset = { token: undefined, namespace: undefined, target: undefined, minRange: undefined, maxRange: undefined };
    const more = { maxAge: undefined, deadline: undefined, requestTimeout: undefined, fetch: undefined };
    const hooks = { onEvent: undefined, log: undefined, clock: undefined };
    {
      await using client = new Raindrop({ urls, ...unset, ...more, ...hooks });
      await client.next('order', { signal: undefined, deadline: undefined });
    }
    using other = new Raindrop({ urls });
    other.tryNext('order');
  `,
  );
  const strict = { exactOptionalPropertyTypes: true };
  assert.deepEqual(
    complaints([file], {
      ...strict,
      lib: ['lib.es2023.d.ts', 'lib.dom.d.ts', 'lib.esnext.disposable.d.ts'],
    }),
    [],
  );
  const text = await readFile(file, 'utf8');
  await writeFile(file, text.replaceAll(/(await )?using/g, 'const'));
  assert.deepEqual(complaints([file], strict), []);
});

test('the CommonJS form exports the same and draws', async () => {
  const required = createRequire(import.meta.url)('@example/raindrop');
  assert.notEqual(required.Raindrop, api.Raindrop);
  assert.deepEqual(Object.keys(required).sort(), Object.keys(api).sort());
  const client = new required.Raindrop({
    urls: ['http://raindrop.example.org'],
    fetch: new FakeService().fetch,
  });
  assert.equal(typeof (await client.next('order')), 'bigint');
  client.close();
  await assert.rejects(client.next('order'), required.RaindropError);
});

test('a block ends the client that it declares', async () => {
  // Node 18.17 has neither symbol, and compilers then use these.
  const dispose = Symbol.dispose ?? Symbol.for('Symbol.dispose');
  const asyncDispose = Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose');
  for (const end of [dispose, asyncDispose]) {
    const client = new api.Raindrop({
      urls: ['http://raindrop.example.org'],
      fetch: new FakeService().fetch,
    });
    await client[end]();
    await assert.rejects(client.next('order'), { kind: 'closed' });
  }
});

test('the README lists every option with its default', async () => {
  const types = await readFile(join(folder, 'src/types.ts'), 'utf8');
  const [, body] = types.match(/^export interface RaindropOptions \{\n(.*?)^\}/ms);
  const [, table] = readme.match(/^## Options\n(.*?)^## /ms);
  const options = [...body.matchAll(/^ {2}(\w+)\??:/gm)].map(([, name]) => name);
  assert.deepEqual(
    [...table.matchAll(/^\| `(\w+)` \|/gm)].map(([, name]) => name).sort(),
    options.sort(),
  );
  for (const [, comment, name] of body.matchAll(/Default: ([\d ]+)\. \*\/\n {2}(\w+)\?/g)) {
    assert.match(table, new RegExp(`^\\| \`${name}\` \\| ${comment} \\|`, 'm'));
  }
});

test('the benchmark measures', async () => {
  const ns = await measure(1, 10_000);
  for (const [name, value] of Object.entries(ns)) assert.ok(value > 0, name);
});
