import { LARGEST_ID } from './answer.js';
import { Buffer } from './buffer.js';
import type { Timed } from './buffer.js';
import { AgeClock, platformClock } from './clock.js';
import { closed, RaindropError, usage } from './errors.js';
import { Service } from './service.js';
import type { CallOptions, Clock, RaindropEvent, RaindropOptions } from './types.js';
import { loadRandomSource, randomUuids } from './uuid.js';

const CODE = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$/;
const DAY = 86_400_000;

type NumberOption = 'maxAge' | 'minRange' | 'maxRange' | 'deadline' | 'requestTimeout' | 'target';

/** How many milliseconds of an ID's age may go unnoticed; `maxAge` is reduced by as much. */
const LARGEST_SLACK = 50;

// Older browsers have neither symbol.
const DISPOSE: typeof Symbol.dispose = Symbol.dispose ?? Symbol.for('Symbol.dispose');
const ASYNC_DISPOSE: typeof Symbol.asyncDispose =
  Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose');

/** Options that are checked, with the defaults of those that were missing. */
interface Settings {
  urls: string[];
  token: RaindropOptions['token'];
  namespace: string | undefined;
  fetch: typeof fetch;
  onEvent: RaindropOptions['onEvent'];
  log: (message: string) => void;
  clock: Clock;
  target: number;
  minRange: number;
  maxRange: number;
  maxAge: number;
  /** How many milliseconds of an ID's age may go unnoticed. */
  slack: number;
  deadline: number;
  requestTimeout: number;
}

/**
 * What the parts of one client share.
 *
 * @internal
 */
export interface Context {
  options: Settings;
  /** The wall clock, in milliseconds. */
  wall: () => number;
  ages: AgeClock;
  emit: (event: RaindropEvent) => void;
  log: (message: string) => void;
  /** The last error that the hook for events threw. */
  hookError: RaindropError | undefined;
  service: Service;
}

/** Hands out unique 64-bit IDs from ranges that it leases from Raindrop ahead of demand. */
export class Raindrop {
  #codes = new Map<string, Code>();
  #buffers: Buffer[] = [];
  #context: Context;
  #isClosed = false;

  /** @throws {RaindropError} of kind `usage` */
  constructor(options: RaindropOptions) {
    const checked = checkOptions(options ?? {});
    const { clock, onEvent, slack } = checked;
    const onHookError = (error: any) => {
      this.#context.hookError = RaindropError.of('usage', `onEvent threw: ${error?.message}`, {
        cause: error,
      });
    };
    const emit = (event: RaindropEvent) => {
      try {
        // An async hook throws by what it returns; unhandled, that would end a Node process.
        (onEvent?.(event) as any)?.then?.(undefined, onHookError);
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

  /** Returns the handle of a code, which saves the look-up by name. */
  code(name: string): Code {
    const known = this.#codes.get(name);
    if (known !== undefined) return known;
    if (typeof name !== 'string' || !CODE.test(name)) {
      throw usage(
        `code: ${String(name)}, but 1 to 64 letters, digits and . _ : - are allowed, a letter or digit first`,
      );
    }
    if (this.#isClosed) throw closed();
    const buffer = new Buffer(name, this.#context);
    const code = Code.of(name, buffer);
    this.#buffers.push(buffer);
    this.#codes.set(name, code);
    return code;
  }

  async next(code: string, options?: CallOptions): Promise<bigint> {
    return this.code(code).next(options);
  }

  async nextMany(code: string, n: number, options?: CallOptions): Promise<bigint[]> {
    return this.code(code).nextMany(n, options);
  }

  async nextText(code: string, options?: CallOptions): Promise<string> {
    return this.code(code).nextText(options);
  }

  async nextTextMany(code: string, n: number, options?: CallOptions): Promise<string[]> {
    return this.code(code).nextTextMany(n, options);
  }

  async nextUuid(code: string, options?: CallOptions): Promise<string> {
    return this.code(code).nextUuid(options);
  }

  async nextUuidMany(code: string, n: number, options?: CallOptions): Promise<string[]> {
    return this.code(code).nextUuidMany(n, options);
  }

  tryNext(code: string): bigint | undefined {
    return this.code(code).tryNext();
  }

  async warmUp(code: string, options?: CallOptions): Promise<void> {
    return this.code(code).warmUp(options);
  }

  timeOf(code: string | Code, id: bigint): Date {
    return (code instanceof Code ? code : this.code(code)).timeOf(id);
  }

  /** Ends requests and waiting calls, and drops the buffers. Later calls fail with `closed`. */
  close(): void {
    this.#isClosed = true;
    for (const buffer of this.#buffers) buffer.close();
    this.#context.service.abort(closed());
  }

  /** Closes the client at the end of a block that declares it by `using`. */
  [DISPOSE](): void {
    this.close();
  }

  /** Does the same for `await using`, as frameworks dispose of what they made. */
  async [ASYNC_DISPOSE](): Promise<void> {
    this.close();
  }
}

/** The handle of one code of a client. */
export class Code {
  readonly name: string;
  #buffer: Buffer;

  private constructor(name: string, buffer: Buffer) {
    this.name = name;
    this.#buffer = buffer;
  }

  /** @internal */
  static of(name: string, buffer: Buffer): Code {
    return new Code(name, buffer);
  }

  /** Returns the next ID, after a wait if the buffer is empty. */
  next(options?: CallOptions): Promise<bigint> {
    return this.#buffer.wait(1, () => this.#buffer.draw(), options);
  }

  /** Returns n IDs, ascending: 1 to `maxRange`. */
  nextMany(n: number, options?: CallOptions): Promise<bigint[]> {
    return this.#buffer.wait(n, () => this.#buffer.drawMany(n), options);
  }

  /** Like `next`, as decimal text with the code's prefix. */
  nextText(options?: CallOptions): Promise<string> {
    return this.#buffer.wait(1, () => this.#buffer.drawText(), options);
  }

  /** Like `nextMany`, as decimal texts with the code's prefix. */
  nextTextMany(n: number, options?: CallOptions): Promise<string[]> {
    return this.#buffer.wait(n, () => this.#buffer.drawTexts(n), options);
  }

  /**
   * Returns the next ID as a UUID of version 7. UUIDs sort as their IDs do and are as unique; what the ID
   * leaves of 74 bits is random, 52 with the default layout.
   *
   * @throws {RaindropError} of kind `usage` where IDs have no ticks of a millisecond since 1970 or later:
   *   in segment mode, and where the time wraps, too; of kind `transport` if the platform has no random bits
   */
  async nextUuid(options?: CallOptions): Promise<string> {
    await loadRandomSource();
    const timed = await this.#buffer.wait(1, () => this.#buffer.drawTimed(), options);
    return this.#uuids(timed)[0]!;
  }

  /** Like `nextMany`, as UUIDs. */
  async nextUuidMany(n: number, options?: CallOptions): Promise<string[]> {
    await loadRandomSource();
    return this.#uuids(await this.#buffer.wait(n, () => this.#buffer.drawManyTimed(n), options));
  }

  #uuids({ ids, time }: Timed): string[] {
    try {
      return randomUuids(this.name, time, ids);
    } catch (error) {
      this.#buffer.discard(ids.length);
      throw error;
    }
  }

  /**
   * Returns the next ID at once, or undefined if the buffer is empty. A refill then starts, unless
   * one is under way or the last one failed just now.
   */
  tryNext(): bigint | undefined {
    return this.#buffer.draw();
  }

  /** Waits until the buffer has an ID, and takes none. */
  warmUp(options?: CallOptions): Promise<void> {
    return this.#buffer.warmUp(options);
  }

  /**
   * Returns the time at which an ID was claimed, as the last answer tells how to read it.
   *
   * @throws {RaindropError} of kind `usage` before the first answer, and where its IDs have no time
   */
  timeOf(id: bigint): Date {
    if (typeof id !== 'bigint' || id < 0n || id > LARGEST_ID) {
      throw usage(`id: ${String(id)}, but a bigint from 0 to 2^63 - 1 is allowed`);
    }
    const { time } = this.#buffer;
    if (time === undefined)
      throw usage(`${this.name}: no answer has come yet, or the IDs of the last one have no time`);
    return new Date(time.epoch + Number((id >> time.shift) & time.mask) * time.unit);
  }
}

/**
 * Returns a function that passes a message on unless it did so less than a minute ago. What `log`
 * throws changes nothing for the callers.
 */
function atMostOnceAMinute(log: (message: string) => void, ages: AgeClock) {
  let next = -Infinity;
  return (message: string) => {
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

function checkOptions(options: RaindropOptions): Settings {
  const number = (name: NumberOption, byDefault: number, min: number, max = DAY): number => {
    const value = options[name] ?? byDefault;
    if (Number.isSafeInteger(value) && value >= min && value <= max) return value;
    throw usage(`${name}: ${value}, but a whole number from ${min} to ${max} is allowed`);
  };
  const optional = <K extends keyof RaindropOptions>(
    name: K,
    ...types: string[]
  ): RaindropOptions[K] => {
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
    log: optional('log', 'function') ?? ((message: string) => console.warn(message)),
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

function checkUrls(urls: readonly string[]): string[] {
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
