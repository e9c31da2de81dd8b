import { isSameTime } from './answer.js';
import type { TimeField } from './answer.js';
import type { Context } from './client.js';
import { closed, invalid, RaindropError, usage, wrap } from './errors.js';
import { Rate } from './rate.js';
import { isCertain } from './service.js';
import type { Lease } from './service.js';
import type { CallOptions } from './types.js';
import { cancelled, Waiters } from './waiters.js';

const FIRST_PAUSE = 100;
const LONGEST_PAUSE = 10_000;
const LONGEST_DEADLINE = 2 ** 31 - 1;

/** How many answers are remembered, to notice one that something on the way repeats. */
const REMEMBERED = 1000;

interface BufferedRange {
  step: bigint;
  /** How many IDs a row has. */
  count: number;
  /** From a row to the next. */
  stride: bigint;
  /** The first ID of the next row. */
  next: bigint;
  /** How many rows have not been begun. */
  rows: number;
  prefix: string;
  /** The time of the age clock from which on no ID may be used. */
  limit: number;
}

/** IDs, and how to read their time: as the answers said that they came with. */
export interface Timed {
  ids: bigint[];
  time: TimeField | undefined;
}

/** The IDs of one code that this client holds, and the refill that replaces them. */
export class Buffer {
  // The row of IDs that is drawn from: `#left` of them, from `#value` on.
  #value = 0n;
  #step = 1n;
  #left = 0;

  // The wall clock when expiry was checked last.
  #checkedAt = NaN;
  #wall: () => number;

  // Ranges in the order in which they came; the first one has the current row, if there is one.
  #ranges: BufferedRange[] = [];
  #current: BufferedRange | undefined;
  // How many IDs there are beyond the current row, and how many came and were not dropped.
  #reserve = 0;
  #accepted = 0;

  #code: string;
  #context: Context;
  #rate = new Rate();
  #waiters = new Waiters();
  #isClosed = false;
  #isRefilling = false;
  #last = { total: 0, came: -Infinity };
  // The first IDs of the last answers, oldest first.
  #known = new Set<bigint>();

  // The pause after failed refills, by the age clock.
  #resumeAt = -Infinity;
  // The same for a refill that callers wait for: an answer may not silence them for long.
  #waitersResumeAt = -Infinity;
  // A number in browsers, and an object in Node.
  #resumeTimer: any;
  #failures = 0;
  #lastError: RaindropError | undefined;
  // When each base URL may be asked again, by the age clock.
  #notBefore: Map<string, number>;

  // The most to ask for: less than `maxRange` once the service has refused that.
  #most: number;

  /** How to read the time of an ID, by the last answer. All IDs in the buffer came with the same. */
  time: TimeField | undefined;

  constructor(code: string, context: Context) {
    this.#code = code;
    this.#context = context;
    this.#wall = context.wall;
    this.#most = context.options.maxRange;
    this.#notBefore = new Map(context.options.urls.map((url) => [url, -Infinity]));
  }

  /**
   * Returns the next ID, or undefined if there is none; a refill then starts unless one runs or the
   * last one failed just now.
   *
   * This path decides what an ID costs: it reads the wall clock each time, because no timer runs
   * while a process is paused, and does the rest only once a millisecond.
   */
  draw(): bigint | undefined {
    const wall = this.#wall();
    if (wall === this.#checkedAt && this.#left > 0) {
      this.#left--;
      const id = this.#value;
      this.#value = BigInt.asUintN(64, id + this.#step);
      return id;
    }
    if (wall !== this.#checkedAt) this.#check(wall);
    if (this.#left > 0 || this.#nextRow()) return this.draw();
    return this.#refillIfLow(1);
  }

  /**
   * Returns n IDs, ascending, or undefined if there are fewer.
   *
   * @param prefixes gets the prefix of each
   */
  drawMany(n: number, prefixes?: Map<bigint, string>): bigint[] | undefined {
    for (;;) {
      this.#check(this.#wall());
      if (this.#stock() < n) return this.#refillIfLow(n);
      const ids: bigint[] = [];
      let limit = Infinity;
      while (ids.length < n) {
        if (this.#left === 0) this.#nextRow();
        const { limit: end, prefix } = this.#current!;
        limit = Math.min(limit, end);
        for (; this.#left > 0 && ids.length < n; this.#left--, this.#value += this.#step) {
          ids.push(this.#value);
          prefixes?.set(this.#value, prefix);
        }
      }
      // The process may have been paused meanwhile.
      if (this.#now() < limit) return ascending(ids);
      this.discard(n);
    }
  }

  /** Does what `draw` does for a text: the ID after the prefix of the answer that it came with. */
  drawText(): string | undefined {
    const id = this.draw();
    return id === undefined ? undefined : `${this.#current!.prefix}${id}`;
  }

  /** Does the same for n IDs. */
  drawTexts(n: number): string[] | undefined {
    const prefixes = new Map<bigint, string>();
    return this.drawMany(n, prefixes)?.map((id) => `${prefixes.get(id)}${id}`);
  }

  /**
   * Does what `draw` does for a UUID: also returns how to read the time of the ID. No answer can come
   * between the two.
   */
  drawTimed(): Timed | undefined {
    const id = this.draw();
    return id === undefined ? undefined : { ids: [id], time: this.time };
  }

  /** Does the same for n IDs. */
  drawManyTimed(n: number): Timed | undefined {
    const ids = this.drawMany(n);
    return ids === undefined ? undefined : { ids, time: this.time };
  }

  /** Waits for n IDs, which `take` draws. */
  async wait<T>(n: number, take: () => T | undefined, options: CallOptions = {}): Promise<T> {
    const { signal, deadline = this.#context.options.deadline } = options;
    const { maxRange } = this.#context.options;
    const isCount = Number.isSafeInteger(n) && n >= 1 && n <= maxRange;
    if (!isCount) throw usage(`n: ${n}, but 1 to ${maxRange} (maxRange) is allowed`);
    const isDeadline = Number.isFinite(deadline) && deadline >= 0 && deadline <= LONGEST_DEADLINE;
    if (!isDeadline)
      throw usage(`deadline: ${deadline}, but 0 to ${LONGEST_DEADLINE} milliseconds are allowed`);
    if (signal?.aborted) throw cancelled(signal);
    const taken = take();
    if (taken !== undefined) return taken;
    const since = this.#now();
    const endsAt = since + deadline;
    if (this.#waitersResumeAt > since && this.#waitersResumeAt >= endsAt) throw this.#lastError;
    const onLeave = (error?: RaindropError) =>
      this.#context.emit({ type: 'wait', code: this.#code, ms: this.#now() - since, error });
    const waiting = this.#waiters.add({ n, take, deadline, endsAt, signal, onLeave });
    this.#refillIfLow(0);
    return waiting;
  }

  /** Waits until there is an ID, and takes none. */
  async warmUp(options?: CallOptions): Promise<void> {
    const isWarm = () => {
      this.#check(this.#wall());
      return this.#stock() > 0 || undefined;
    };
    await this.wait(1, isWarm, options);
  }

  /** Counts IDs that no caller gets. */
  discard(ids: number): void {
    this.#accepted -= ids;
    this.#context.emit({ type: 'dropped', code: this.#code, ids });
  }

  close(): void {
    this.#isClosed = true;
    this.#checkedAt = NaN;
    clearTimeout(this.#resumeTimer);
    this.#drop(() => true);
    this.#waiters.fail(closed());
  }

  #now(): number {
    return this.#context.ages.now();
  }

  #stock(): number {
    return this.#left + this.#reserve;
  }

  /** Drops what has expired, and starts a refill if little is left. */
  #check(wall: number): void {
    if (this.#isClosed) throw closed();
    const now = this.#context.ages.now(wall);
    this.#checkedAt = wall;
    this.#drop((range) => range.limit <= now);
    this.#refillIfLow(0);
  }

  /** Begins the next row; returns whether there is one. */
  #nextRow(): boolean {
    if (this.#ranges[0]?.rows === 0) this.#ranges.shift();
    const [range] = this.#ranges;
    if (range === undefined) return false;
    this.#current = range;
    this.#value = range.next;
    this.#step = range.step;
    this.#left = range.count;
    this.#reserve -= range.count;
    range.rows--;
    range.next += range.stride;
    return true;
  }

  #drop(isOver: (range: BufferedRange) => boolean): void {
    const over = this.#ranges.filter(isOver);
    if (over.length === 0) return;
    let ids = over.reduce((sum, { rows, count }) => sum + rows * count, 0);
    this.#reserve -= ids;
    if (over[0] === this.#current) {
      ids += this.#left;
      this.#left = 0;
    }
    this.#ranges = this.#ranges.filter((range) => !over.includes(range));
    if (ids > 0) this.discard(ids);
  }

  /** Returns how many IDs `target` milliseconds use at the present rate. */
  #useInTarget(): number {
    return (
      this.#rate.measure(this.#now(), this.#accepted - this.#stock()) * this.#context.options.target
    );
  }

  /**
   * Starts a refill if callers want more than there is, or if the rest lasts less than half of
   * `target`. Below one ID in that time it fetches nothing ahead: it would expire unused.
   *
   * @param missed how many IDs a caller that does not wait wanted
   * @returns what that caller gets
   */
  #refillIfLow(missed: number): undefined {
    if (this.#isRefilling || this.#isClosed) return;
    const wanted = Math.max(missed, this.#waiters.wanted);
    if (Math.max(wanted, Math.floor(this.#useInTarget() / 2)) <= this.#stock()) return;
    const resumeAt = this.#waiters.wanted > 0 ? this.#waitersResumeAt : this.#resumeAt;
    const pause = resumeAt - this.#now();
    if (pause <= 0) {
      this.#refill(missed);
    } else if (this.#waiters.wanted > 0) {
      clearTimeout(this.#resumeTimer);
      this.#resumeTimer = setTimeout(() => this.#refillIfLow(0), pause);
      this.#resumeTimer.unref?.();
    }
  }

  async #refill(missed: number): Promise<void> {
    this.#isRefilling = true;
    try {
      // Callers of the same turn are counted before the size is chosen.
      await undefined;
      if (this.#isClosed) return;
      await this.#lease(this.#size(missed));
    } catch (thrown) {
      const error = wrap('the refill failed', thrown);
      this.#fail(error);
      // Those who waited know by now; that the hook failed for their waits as well is no news. An async
      // hook has failed a moment later.
      await undefined;
      if (error.kind === 'usage') this.#context.hookError = undefined;
    }
    this.#isRefilling = false;
    this.#waiters.serve();
    this.#refillIfLow(0);
  }

  /** Asks for fewer until the service and its layout allow so many. */
  async #lease(size: number): Promise<void> {
    for (; ; size = this.#most) {
      try {
        const accept = (answer: Lease) => this.#accept(answer);
        await this.#context.service.lease(this.#code, size, this.#notBefore, accept);
        if (this.#context.hookError !== undefined) throw this.#context.hookError;
        return;
      } catch (thrown) {
        const error = thrown as RaindropError;
        if (error.code !== 'invalid_count' || size === 1) throw error;
        this.#most = Math.floor(size / 2);
      }
    }
  }

  /**
   * Returns how many IDs to ask for: if the last ones were used up within `target`, twice as many.
   * While callers wait, they can use little, so what was used does not tell how many they need.
   */
  #size(missed: number): number {
    const { minRange, target } = this.#context.options;
    const wanted = Math.max(missed, this.#waiters.wanted) - this.#stock();
    const isShort = wanted > 0 && this.#now() - this.#last.came <= target;
    const doubled = isShort ? 2 * this.#last.total : 0;
    return Math.min(
      this.#most,
      Math.max(minRange, Math.ceil(this.#useInTarget()), wanted, doubled),
    );
  }

  #accept({ ranges, total, prefix, time, ages, life, asked }: Lease): void {
    const { maxAge, slack } = this.#context.options;
    const now = this.#now();
    const limit = asked + Math.min(ages ? maxAge - slack : Infinity, life);
    const first = ranges[0]!.first;
    if (this.#known.has(first))
      throw invalid(`ranges[0].first: an earlier answer began with ${first} too`);
    // Also one that is not used: when it comes again, its IDs are still older than they seem.
    this.#known.add(first);
    if (this.#known.size > REMEMBERED) this.#known.delete(this.#known.values().next().value!);
    if (limit <= now)
      throw RaindropError.of('transport', 'all IDs of the answer had expired when it came');
    // The time of other IDs is read otherwise, so a call could not make UUIDs of both.
    if (!isSameTime(time, this.time)) this.#drop(() => true);
    for (const { first: next, repeat: rows, step, count, stride } of ranges)
      this.#ranges.push({ next, rows, step, count, stride, prefix, limit });
    this.#last = { total, came: now };
    this.#accepted += total;
    this.#reserve += total;
    this.time = time;
    this.#failures = 0;
  }

  #fail(error: RaindropError): void {
    // Half of the pause is random, so that clients which failed together do not return together.
    const pause =
      (Math.min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** this.#failures) * (1 + Math.random())) / 2;
    this.#failures++;
    this.#lastError = error;
    const now = this.#now();
    // What every base URL would answer concerns all of them.
    const isFinal = isCertain(error);
    const askable = isFinal ? now + (error.retryAfter ?? 0) : Math.min(...this.#notBefore.values());
    this.#resumeAt = Math.max(now + pause, askable);
    this.#waitersResumeAt = Math.min(this.#resumeAt, now + LONGEST_PAUSE);
    if (!this.#isClosed)
      this.#context.log(`raindrop: refill of code ${this.#code} failed: ${error.message}`);
    this.#waiters.fail(error, isFinal ? undefined : this.#waitersResumeAt);
  }
}

/** Sorts if need be: after a fail-over, IDs of the next node may be below those of the last. */
function ascending(ids: bigint[]): bigint[] {
  const isAscending = ids.every((id, i) => i === 0 || ids[i - 1]! < id);
  return isAscending ? ids : ids.sort((a, b) => (a < b ? -1 : 1));
}
