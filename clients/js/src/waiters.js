import { RaindropError } from './errors.js';

/**
 * Callers that wait for a buffer, first come, first served, as far as it has enough for each. A caller
 * leaves by being served, by its deadline, by its signal, or by an error for all.
 */
export class Waiters {
  #waiting = new Set();

  /** How many IDs all of them want. */
  wanted = 0;

  /**
   * Adds a caller.
   *
   * @template T
   * @param {{n: number, take: () => T | undefined, deadline: number, signal?: AbortSignal,
   *   onLeave: (error?: RaindropError) => void}} caller `deadline` in milliseconds from now
   * @returns {Promise<T>}
   */
  add({ n, take, deadline, signal, onLeave }) {
    return new Promise((resolve, reject) => {
      const leave = (error, taken) => {
        if (!this.#waiting.delete(waiter)) return;
        this.wanted -= n;
        clearTimeout(timer);
        signal?.removeEventListener('abort', onAbort);
        if (error === undefined) resolve(taken);
        else reject(error);
        onLeave(error);
      };
      const waiter = { n, take, leave };
      const onAbort = () => leave(cancelled(signal));
      // Not unref'd: somebody awaits this promise, so Node must not exit before it settles.
      const timer = setTimeout(() => leave(new RaindropError('deadline', `no ID within ${deadline} ms`)), deadline);
      signal?.addEventListener('abort', onAbort);
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

  /** Fails all callers, but not those who come because a hook was told of it. */
  fail(error) {
    for (const waiter of [...this.#waiting]) waiter.leave(error);
  }
}

/** @param {AbortSignal} signal */
export function cancelled(signal) {
  return new RaindropError('cancelled', 'the caller cancelled', { cause: signal.reason });
}
