// A service that exists only in memory, and clocks that tests set.

/** An answer with `count` IDs from `first` on, `step` apart. */
export function answerOf(count, first = 252201579132751872n, more = {}) {
  return {
    issued_at: '2026-11-28T09:30:00.123Z',
    layout: 'millisecond from 2025-01-01T00:00:00Z',
    time: { epoch_ms: 1735689600000, unit_ms: 1, shift: 22, bits: 41 },
    ranges: [{ first: `${first}`, last: `${first + BigInt(count - 1)}`, step: '1', count }],
    ...more,
  };
}

export function json(body, { status = 200, headers = {}, type = 'application/json' } = {}) {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return new Response(text, { status, headers: { 'content-type': type, ...headers } });
}

export function problem(status, code, headers = {}) {
  const body = {
    type: `urn:raindrop:problem:${code}`,
    title: code,
    status,
    detail: `about ${code}`,
    code,
  };
  return json(body, { status, headers, type: 'application/problem+json' });
}

/** A `fetch` that answers with what `answer(upTo, url, request)` returns: a Response or a JSON body. */
export function fakeFetch(answer) {
  return async (text, request) => {
    const url = new URL(text);
    const given = await answer(Number(url.searchParams.get('up_to')), url, request);
    return given instanceof Response ? given : json(given);
  };
}

/** Issues ascending IDs, as the service does; `requests` has what was asked for. */
export class FakeService {
  requests = [];
  next = 252201579132751872n;
  /** Replaces the answer, if set: `(upTo, url, request) => Response | body`. */
  answer;
  /** Holds answers back until it resolves. */
  gate = Promise.resolve();

  fetch = fakeFetch(async (upTo, url, request) => {
    this.requests.push({ upTo, url, request });
    const aborted = new Promise((_, reject) => {
      request.signal.addEventListener('abort', () => reject(request.signal.reason));
    });
    await Promise.race([this.gate, aborted]);
    return this.answer ? this.answer(upTo, url, request) : this.issue(upTo);
  });

  issue(count, more) {
    const first = this.next;
    this.next += BigInt(count);
    return answerOf(count, first, more);
  }

  /** Holds answers back until the returned function is called. */
  hold() {
    let release;
    this.gate = new Promise((resolve) => (release = resolve));
    return release;
  }
}

/** Clocks that stand still until a test moves them. */
export class FakeClock {
  at = 1000;
  unix = 1764322200000;
  steady = () => this.at;
  wall = () => this.unix;

  pass(ms) {
    this.at += ms;
    this.unix += ms;
  }
}

/** Lets everything run that needs no timer. */
export async function settle() {
  for (let i = 0; i < 20; i++) await new Promise((resolve) => setImmediate(resolve));
}
