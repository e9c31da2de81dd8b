// Drives the client for the conformance suite: one JSON request a line, one JSON answer a line.
// The protocol is in ../../conformance/README.md.

import { closeSync, openSync, writeSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises';

import { Raindrop, RaindropError } from '../dist/esm/index.js';

/** How many IDs a task of a burst draws before it lets the event loop turn. */
const BATCH = 1000;

let client;
let counts;
let lastStarted = 0;
const started = new Map();

const actions = {
  open({ urls, token, token_faults: faults = [], options = {} }) {
    client?.close();
    counts = { requests: 0, failed_requests: 0, ids_fetched: 0, ids_dropped: 0 };
    const own = counts;
    client = new Raindrop({
      urls,
      token: faults.length === 0 ? token : tokenFunction(token, [...faults]),
      target: options.target_ms,
      maxAge: options.max_age_ms,
      minRange: options.min_range,
      maxRange: options.max_range,
      deadline: options.deadline_ms,
      requestTimeout: options.request_timeout_ms,
      onEvent: (event) => count(own, event),
    });
    return { ok: true };
  },

  next: ({ code, n = 1, deadline_ms: deadline }) =>
    timed(async () => {
      return n === 1
        ? [await client.next(code, { deadline })]
        : client.nextMany(code, n, { deadline });
    }),

  text: ({ code, n, deadline_ms: deadline }) =>
    timed(async () => {
      return n === undefined
        ? [await client.nextText(code, { deadline })]
        : client.nextTextMany(code, n, { deadline });
    }),

  uuid: ({ code, n, deadline_ms: deadline }) =>
    timed(async () => {
      return n === undefined
        ? [await client.nextUuid(code, { deadline })]
        : client.nextUuidMany(code, n, { deadline });
    }),

  try({ code }) {
    const id = client.tryNext(code);
    return id === undefined ? { error: { kind: 'empty' } } : { ids: [`${id}`] };
  },

  async warm_up({ code }) {
    await client.warmUp(code);
    return { ok: true };
  },

  burst,

  time_of: ({ code, id }) => ({ unix_ms: client.timeOf(code, BigInt(id)).getTime() }),

  stats: () => ({ ...counts, memory_bytes: process.memoryUsage().rss }),

  close() {
    client.close();
    return { ok: true };
  },

  async await({ started: number }) {
    const answer = await started.get(number);
    if (answer === undefined) throw new Error(`nothing was started as ${number}`);
    started.delete(number);
    return answer;
  },
};

/** A token function whose first calls do what `faults` says. */
function tokenFunction(token, faults) {
  return () => {
    const fault = faults.shift();
    if (fault === 'hang') return new Promise(() => {});
    if (fault === 'throw') throw new Error('no token today');
    return token;
  };
}

function count(own, event) {
  if (event.type === 'request') {
    own.requests++;
    own.ids_fetched += event.ids;
    if (event.error !== undefined) own.failed_requests++;
  } else if (event.type === 'dropped') {
    own.ids_dropped += event.ids;
  }
}

async function timed(draw) {
  const start = performance.now();
  try {
    const ids = await draw();
    return { ids: ids.map(String), waited_ms: performance.now() - start };
  } catch (error) {
    return { ...describe(error), waited_ms: performance.now() - start };
  }
}

async function burst({
  code,
  threads = 1,
  count: each,
  deadline_ms: deadline,
  file,
  per_second: perSecond = 0,
}) {
  const order = client.code(code);
  const total = { drawn: 0, failed: 0, longest_wait_ms: 0, oldest_ms: null };
  const output = openSync(file, 'a');

  const wait = async () => {
    const start = performance.now();
    try {
      return await order.next({ deadline });
    } catch (error) {
      if (!(error instanceof RaindropError)) throw error;
      return undefined;
    } finally {
      total.longest_wait_ms = Math.max(total.longest_wait_ms, performance.now() - start);
    }
  };

  const task = async () => {
    const start = performance.now();
    for (let attempts = 0; attempts < each;) {
      const due =
        perSecond === 0 ? each : Math.floor(((performance.now() - start) * perSecond) / 1000);
      const end = Math.min(each, due, attempts + BATCH);
      const ids = [];
      for (; attempts < end; attempts++) {
        let id;
        try {
          // Awaits only what has to wait: a promise for each ID would cost more than the ID.
          id = order.tryNext() ?? (await wait());
        } catch (error) {
          if (error.kind !== 'closed') throw error;
        }
        if (id === undefined) {
          total.failed++;
        } else {
          ids.push(id);
          noteAge(order, id, total);
        }
      }
      total.drawn += ids.length;
      if (ids.length > 0) writeSync(output, `${ids.join('\n')}\n`);
      await (attempts < due ? turn() : sleep(1));
    }
  };

  try {
    await Promise.all(Array.from({ length: threads }, task));
  } finally {
    closeSync(output);
  }
  return total;
}

function noteAge(order, id, total) {
  try {
    total.oldest_ms = Math.max(
      total.oldest_ms ?? -Infinity,
      Date.now() - order.timeOf(id).getTime(),
    );
  } catch {
    // Numbers of segment mode have no time.
  }
}

function describe(error) {
  const { kind = 'usage', code, status, retryAfter, message } = error;
  return { error: { kind, code, status, retry_after_ms: retryAfter, message } };
}

async function act(request) {
  try {
    const action = actions[request.do];
    if (action === undefined) throw new Error(`do: ${request.do} is unknown`);
    return await action(request);
  } catch (error) {
    return describe(error);
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  let answer;
  if (request.background === true) {
    started.set(++lastStarted, act(request));
    answer = { started: lastStarted };
  } else {
    answer = await act(request);
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
client?.close();
