import { RaindropError } from './errors.js';

/**
 * @typedef {(error?: RaindropError, taken?: any) => void} Leave ends a caller's wait
 *
 * @typedef {object} Waiter
 * @property {number} n how many IDs it wants
 * @property {() => any} take draws them, or returns undefined
 * @property {Leave} leave
 * @property {number} endsAt its deadline by the age clock
 * @property {RaindropError | undefined} failure why the last refill failed that it waited for
 */

/**
 * Callers that wait for a buffer, first come, first served, as far as it has enough for each. A caller
 * leaves by being served, by its deadline, by its signal, or by an error for all.
 */
export class Waiters {
  /** @type {Set<Waiter>} */
  #waiting = new Set();
  /**
   * Who is to be told of each signal: one listener for all callers that share it, because Node warns
   * of many.
   *
   * @type {Map<AbortSignal, {leaves: Set<Leave>, onAbort: () => void}>}
   */
  #signals = new Map();

  /** How many IDs all of them want. */
  wanted = 0;

  /**
   * Adds a caller.
   *
   * @template T
   * @param {{n: number, take: () => T | undefined, deadline: number, endsAt: number,
   *   signal?: AbortSignal, onLeave: (error?: RaindropError) => void}} caller `deadline` in
   *   milliseconds from now; `endsAt` is the same by the age clock
   * @returns {Promise<T>}
   */
  add({ n, take, deadline, endsAt, signal, onLeave }) {
    return new Promise((resolve, reject) => {
      /** @type {Leave} */
      const leave = (error, taken) => {
        if (!this.#waiting.delete(waiter)) return;
        this.wanted -= n;
        clearTimeout(timer);
        if (signal !== undefined) this.#unlisten(signal, leave);
        if (error === undefined) resolve(/** @type {T} */ (taken));
        else reject(error);
        onLeave(error);
      };
      /** @type {Waiter} */
      const waiter = { n, take, leave, endsAt, failure: undefined };
      const onTimeout = () =>
        leave(waiter.failure ?? new RaindropError('deadline', `no ID within ${deadline} ms`));
      // Not unref'd: somebody awaits this promise, so Node must not exit before it settles.
      const timer = setTimeout(onTimeout, deadline);
      if (signal !== undefined) this.#listen(signal, leave);
      this.#waiting.add(waiter);
      this.wanted += n;
    });
  }

  /** Serves callers in order. One that wants more than there is keeps nobody waiting who wants less. */
  serve() {
    let tooMany = Infinity;
    // A copy, because a hook that is told of a wait can make callers come, and others leave.
    for (const waiter of [...this.#waiting]) {
      if (waiter.n >= tooMany || !this.#waiting.has(waiter)) continue;
      const taken = waiter.take();
      if (taken === undefined) tooMany = waiter.n;
      else waiter.leave(undefined, taken);
    }
  }

  /**
   * Fails callers, but not those who come because a hook was told of it: all whose time is over before
   * the next attempt. The others wait for it, and get the error if nothing comes of it.
   *
   * @param {RaindropError} error
   * @param {number} [nextAt] of the next attempt, by the age clock; by default there is none
   */
  fail(error, nextAt = Infinity) {
    for (const waiter of [...this.#waiting]) {
      waiter.failure = error;
      if (waiter.endsAt <= nextAt) waiter.leave(error);
    }
  }

  /**
   * @param {AbortSignal} signal
   * @param {Leave} leave
   */
  #listen(signal, leave) {
    let shared = this.#signals.get(signal);
    if (shared === undefined) {
      /** @type {Set<Leave>} */
      const leaves = new Set();
      const onAbort = () => {
        for (const one of [...leaves]) one(cancelled(signal));
      };
      shared = { leaves, onAbort };
      this.#signals.set(signal, shared);
      signal.addEventListener('abort', onAbort);
    }
    shared.leaves.add(leave);
  }

  /**
   * @param {AbortSignal} signal
   * @param {Leave} leave
   */
  #unlisten(signal, leave) {
    const shared = this.#signals.get(signal);
    shared?.leaves.delete(leave);
    if (shared === undefined || shared.leaves.size > 0) return;
    this.#signals.delete(signal);
    signal.removeEventListener('abort', shared.onAbort);
  }
}

/** @param {AbortSignal} signal */
export function cancelled(signal) {
  return new RaindropError('cancelled', 'the caller cancelled', { cause: signal.reason });
}
