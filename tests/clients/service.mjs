// The real service and a private PostgreSQL, for the tests and benchmarks of the JavaScript packages.

import { execFileSync, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import {
  chownSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const BINARY = resolve(
  ROOT,
  process.env.RAINDROP ?? join(process.env.CARGO_TARGET_DIR ?? 'target', 'debug/raindrop'),
);
const PATIENCE_MS = 60_000;

/** Programs that are to end with the tests, also where these are ended before their time. */
const running = new Set();
process.on('exit', () => running.forEach((child) => child.kill('SIGKILL')));
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.once(signal, () => process.exit(1));

export const TOKEN = 'raindrop_of_the_javascript_tests_0123456789';

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

/**
 * Starts a program in a new temporary folder, and waits until `isReady`.
 *
 * @returns {Promise<() => Promise<void>>} ends the program by a signal and removes the folder
 */
async function start({ folder, command, arguments: list, signal, isReady, ...options }) {
  const log = join(folder, 'log');
  const output = openSync(log, 'a');
  const child = spawn(command, list, {
    cwd: folder,
    stdio: ['ignore', output, output],
    ...options,
  });
  running.add(child);
  const ended = once(child, 'exit').finally(() => running.delete(child));
  const stop = async () => {
    child.kill(signal);
    await ended;
    rmSync(folder, { recursive: true });
  };
  const ends = Date.now() + PATIENCE_MS;
  while (!(await isReady())) {
    if (child.exitCode !== null || Date.now() > ends) {
      const text = readFileSync(log, 'utf8');
      await stop();
      throw new Error(`${command} is not ready: ${text.slice(-2000)}`);
    }
    await sleep(50);
  }
  return stop;
}

/**
 * Starts a node of the service with a new store.
 *
 * @param {{http?: string, tokens?: boolean}} [settings] `http`: more lines of that section;
 *   `tokens`: whether requests need TOKEN
 */
export async function startService({ http = '', tokens = false } = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'raindrop-js-'));
  const url = `http://127.0.0.1:${await freePort()}`;
  const hash = createHash('sha256').update(TOKEN).digest('hex');
  writeFileSync(
    join(folder, 'tokens.toml'),
    `[[token]]\nname = "test"\nhash = "sha256:${hash}"\npermissions = ["ids"]\n`,
  );
  writeFileSync(
    join(folder, 'raindrop.toml'),
    `
[http]
listen = "${new URL(url).host}"
${http}

[store]
url = "sqlite://${folder}/raindrop.db"

[worker]
holder = "javascript-tests"

${tokens ? `[auth]\ntokens_file = "${folder}/tokens.toml"` : ''}

[[code]]
name = "order"
prefix = "ORD-"
`,
  );
  const env = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !name.startsWith('RAINDROP')),
  );
  const isReady = () =>
    fetch(`${url}/readyz`).then(
      ({ ok }) => ok,
      () => false,
    );
  const list = ['serve', '--config', 'raindrop.toml'];
  return {
    url,
    stop: await start({
      folder,
      command: BINARY,
      arguments: list,
      signal: 'SIGTERM',
      isReady,
      env,
    }),
  };
}

/** Starts a PostgreSQL without passwords; `connectionString` names its database. */
export async function startPostgres() {
  const [version] = readdirSync('/usr/lib/postgresql').sort((a, b) => b - a);
  const programs = `/usr/lib/postgresql/${version}/bin`;
  const folder = mkdtempSync(join(tmpdir(), 'raindrop-pg-'));
  // It refuses to run as root.
  const id = (flag) => Number(execFileSync('id', [flag, 'postgres'], { encoding: 'utf8' }));
  const user = process.getuid() === 0 ? { uid: id('-u'), gid: id('-g') } : {};
  const data = join(folder, 'data');
  mkdirSync(data);
  if (user.uid !== undefined)
    for (const path of [folder, data]) chownSync(path, user.uid, user.gid);
  const setup = ['-D', data, '-U', 'postgres', '-A', 'trust', '-N', '--no-locale', '-E', 'UTF8'];
  execFileSync(`${programs}/initdb`, setup, { cwd: folder, stdio: 'pipe', ...user });
  const port = await freePort();
  const address = ['-h', '127.0.0.1', '-p', `${port}`, '-U', 'postgres'];
  const isReady = () => {
    try {
      return execFileSync(`${programs}/pg_isready`, address, { stdio: 'pipe' }) && true;
    } catch {
      return false;
    }
  };
  const settings = ['listen_addresses=127.0.0.1', `unix_socket_directories=${folder}`, 'fsync=off'];
  const list = ['-D', data, '-p', `${port}`, ...settings.flatMap((setting) => ['-c', setting])];
  // SIGQUIT: the test removes the database, so the server need not shut down in order.
  const command = `${programs}/postgres`;
  const stop = await start({
    folder,
    command,
    arguments: list,
    signal: 'SIGQUIT',
    isReady,
    ...user,
  });
  return { connectionString: `postgresql://postgres@127.0.0.1:${port}/postgres`, stop };
}
