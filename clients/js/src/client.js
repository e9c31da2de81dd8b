import { LARGEST_ID } from './answer.js';
import { Buffer } from './buffer.js';
import { AgeClock, platformClock } from './clock.js';
import { closed, RaindropError, usage } from './errors.js';
import { Service } from './service.js';

const CODE = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$/;
const DAY = 86_400_000;

/** How many milliseconds of an ID's age may go unnoticed; `maxAge` is reduced by as much. */
const LARGEST_SLACK = 50;

// Older browsers have neither symbol.
/** @type {typeof Symbol.dispose} */
const DISPOSE = Symbol.dispose ?? Symbol.for('Symbol.dispose');
/** @type {typeof Symbol.asyncDispose} */
const ASYNC_DISPOSE = Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose');

/**
 * @typedef {import('../index.d.ts').CallOptions} CallOptions
 * @typedef {ReturnType<typeof checkOptions>} Settings
 *
 * @typedef {object} Context what the parts of one client share
 * @property {Settings} options
 * @property {() => number} wall the wall clock, in milliseconds
 * @property {AgeClock} ages
 * @property {(event: import('../index.d.ts').RaindropEvent) => void} emit
 * @property {(message: string) => void} log
 * @property {RaindropError | undefined} hookError what the hook for events threw last
 * @property {Service} service
 */

/** Hands out unique 64-bit IDs from ranges that it leases from Raindrop ahead of demand. */
export class Raindrop {
  /** @type {Map<string, Code>} */
  #codes = new Map();
  /** @type {Buffer[]} */
  #buffers = [];
  /** @type {Context} */
  #context;
  #isClosed = false;

  /**
   * @param {import('../index.d.ts').RaindropOptions} options
   * @throws {RaindropError} of kind `usage`
   */
  constructor(options) {
    const checked = checkOptions(options ?? {});
    const { clock, onEvent, slack } = checked;
    /** @param {any} error */
    const onHookError = (error) => {
      this.#context.hookError = new RaindropError('usage', `onEvent threw: ${error?.message}`, {
        cause: error,
      });
    };
    /** @param {import('../index.d.ts').RaindropEvent} event */
    const emit = (event) => {
      try {
        // An async hook throws by what it returns; unhandled, that would end a Node process.
        /** @type {any} */ (onEvent?.(event))?.then?.(undefined, onHookError);
      } catch (error) {
        onHookError(error);
      }
    };
    const ages = new AgeClock(clock, slack / 2);
    const log = atMostOnceAMinute(checked.log, ages);
    const service = new Service({ options: checked, ages, emit });
    this.#context = {
      options: checked,
      wall: clock.wall.bind(clock),
      ages,
      emit,
      log,
      hookError: undefined,
      service,
    };
  }

  /**
   * Returns the handle of a code, which saves the look-up by name.
   *
   * @param {string} name
   */
  code(name) {
    const known = this.#codes.get(name);
    if (known !== undefined) return known;
    if (typeof name !== 'string' || !CODE.test(name)) {
      throw usage(
        `code: ${String(name)}, but 1 to 64 letters, digits and . _ : - are allowed, a letter or digit first`,
      );
    }
    if (this.#isClosed) throw closed();
    const buffer = new Buffer(name, this.#context);
    const code = new Code(name, buffer);
    this.#buffers.push(buffer);
    this.#codes.set(name, code);
    return code;
  }

  /**
   * @param {string} code
   * @param {CallOptions} [options]
   */
  async next(code, options) {
    return this.code(code).next(options);
  }

  /**
   * @param {string} code
   * @param {number} n
   * @param {CallOptions} [options]
   */
  async nextMany(code, n, options) {
    return this.code(code).nextMany(n, options);
  }

  /**
   * @param {string} code
   * @param {CallOptions} [options]
   */
  async nextText(code, options) {
    return this.code(code).nextText(options);
  }

  /**
   * @param {string} code
   * @param {number} n
   * @param {CallOptions} [options]
   */
  async nextTextMany(code, n, options) {
    return this.code(code).nextTextMany(n, options);
  }

  /** @param {string} code */
  tryNext(code) {
    return this.code(code).tryNext();
  }

  /**
   * @param {string} code
   * @param {CallOptions} [options]
   */
  async warmUp(code, options) {
    return this.code(code).warmUp(options);
  }

  /**
   * @param {string | Code} code
   * @param {bigint} id
   */
  timeOf(code, id) {
    return (code instanceof Code ? code : this.code(code)).timeOf(id);
  }

  /** Ends requests and waiting callers with an error of kind `closed`, as every later call. */
  close() {
    this.#isClosed = true;
    for (const buffer of this.#buffers) buffer.close();
    this.#context.service.abort(closed());
  }

  [DISPOSE]() {
    this.close();
  }

  async [ASYNC_DISPOSE]() {
    this.close();
  }
}

/** The handle of one code of a client. */
export class Code {
  #buffer;

  /**
   * @param {string} name
   * @param {Buffer} buffer
   */
  constructor(name, buffer) {
    this.name = name;
    this.#buffer = buffer;
  }

  /** Returns the next ID, or undefined if the buffer is empty; a refill then starts. */
  tryNext() {
    return this.#buffer.draw();
  }

  /**
   * Waits until the buffer has an ID, and takes none.
   *
   * @param {CallOptions} [options]
   */
  warmUp(options) {
    return this.#buffer.warmUp(options);
  }

  /** @param {CallOptions} [options] */
  next(options) {
    return this.#buffer.wait(1, () => this.#buffer.draw(), options);
  }

  /**
   * @param {number} n
   * @param {CallOptions} [options]
   */
  nextMany(n, options) {
    return this.#buffer.wait(n, () => this.#buffer.drawMany(n, false), options);
  }

  /** @param {CallOptions} [options] */
  nextText(options) {
    return this.#buffer.wait(1, () => this.#buffer.drawMany(1, true)?.[0], options);
  }

  /**
   * @param {number} n
   * @param {CallOptions} [options]
   */
  nextTextMany(n, options) {
    return this.#buffer.wait(n, () => this.#buffer.drawMany(n, true), options);
  }

  /**
   * Returns the time at which an ID was claimed, as the last answer tells how to read it.
   *
   * @param {bigint} id
   * @throws {RaindropError} of kind `usage` before the first answer, and where IDs have no time
   */
  timeOf(id) {
    if (typeof id !== 'bigint' || id < 0n || id > LARGEST_ID) {
      throw usage(`id: ${String(id)}, but a bigint from 0 to 2^63 - 1 is allowed`);
    }
    const { time } = this.#buffer;
    if (time === undefined)
      throw usage(`${this.name}: no answer has told yet how to read the time of an ID`);
    return new Date(time.epoch + Number((id >> time.shift) & time.mask) * time.unit);
  }
}

/**
 * Returns a function that passes a message on unless it did so less than a minute ago. What `log`
 * throws changes nothing for the callers.
 *
 * @param {(message: string) => void} log
 * @param {AgeClock} ages
 */
function atMostOnceAMinute(log, ages) {
  let next = -Infinity;
  return (/** @type {string} */ message) => {
    const now = ages.now();
    if (now < next) return;
    next = now + 60_000;
    try {
      log(message);
    } catch {
      // There is nowhere else to say so.
    }
  };
}

/** @param {import('../index.d.ts').RaindropOptions} options */
function checkOptions(options) {
  const given = /** @type {Record<string, any>} */ (options);
  /**
   * @param {string} name
   * @param {number} byDefault
   * @param {number} min
   * @returns {number}
   */
  const number = (name, byDefault, min, max = DAY) => {
    const value = given[name] ?? byDefault;
    if (Number.isSafeInteger(value) && value >= min && value <= max) return value;
    throw usage(`${name}: ${value}, but a whole number from ${min} to ${max} is allowed`);
  };
  /**
   * @template {keyof import('../index.d.ts').RaindropOptions} K
   * @param {K} name
   * @param {...string} types
   * @returns {import('../index.d.ts').RaindropOptions[K]}
   */
  const optional = (name, ...types) => {
    const value = options[name];
    if (value === undefined || types.includes(typeof value)) return value;
    throw usage(`${name}: ${typeof value}, but ${types.join(' or ')} is allowed`);
  };
  const maxAge = number('maxAge', 10_000, 10);
  const minRange = number('minRange', 1, 1, 1_000_000);
  const urls = checkUrls(options.urls);
  const deadline = number('deadline', 2000, 0);
  // With several base URLs, a call must have time for the next one.
  const requestTimeout = urls.length > 1 ? Math.min(Math.max(deadline / 2, 1000), 5000) : 5000;
  return {
    urls,
    token: optional('token', 'string', 'function'),
    namespace: optional('namespace', 'string'),
    fetch: optional('fetch', 'function') ?? globalThis.fetch,
    onEvent: optional('onEvent', 'function'),
    log: optional('log', 'function') ?? ((/** @type {string} */ message) => console.warn(message)),
    clock: optional('clock', 'object') ?? platformClock,
    // A buffer holds up to one and a half times this, which is to be used before it expires.
    target: Math.min(number('target', 2000, 1), maxAge / 2),
    minRange,
    maxRange: number('maxRange', Math.max(minRange, 100_000), minRange, 1_000_000),
    maxAge,
    slack: Math.min(LARGEST_SLACK, maxAge / 10),
    deadline,
    requestTimeout: number('requestTimeout', Math.floor(requestTimeout), 1),
  };
}

/** @param {readonly string[]} urls */
function checkUrls(urls) {
  if (!Array.isArray(urls) || urls.length === 0)
    throw usage('urls: at least one base URL is needed');
  return urls.map((text) => {
    // In a browser, a base URL may be relative to the page.
    const base = globalThis.document?.baseURI;
    const url = URL.canParse(text, base) ? new URL(text, base) : undefined;
    if (
      !url ||
      !/^https?:$/.test(url.protocol) ||
      url.search ||
      url.hash ||
      url.username ||
      url.password
    ) {
      throw usage(
        `urls: number ${urls.indexOf(text) + 1} is no http or https URL of a host and a path alone`,
      );
    }
    return url.href.replace(/\/+$/, '');
  });
}
