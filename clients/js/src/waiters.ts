import { RaindropError } from './errors.js';

/** Ends a caller's wait. */
type Leave = (error?: RaindropError, taken?: any) => void;

interface Caller<T> {
  /** How many IDs it wants. */
  n: number;
  /** Draws them, or returns undefined. */
  take: () => T | undefined;
  /** In milliseconds from now. */
  deadline: number;
  /** The same by the age clock. */
  endsAt: number;
  signal: AbortSignal | undefined;
  onLeave: (error?: RaindropError) => void;
}

interface Waiter {
  n: number;
  take: () => unknown;
  leave: Leave;
  endsAt: number;
  /** Why the last refill failed that it waited for. */
  failure: RaindropError | undefined;
}

/**
 * Callers that wait for a buffer, first come, first served, as far as it has enough for each. A caller
 * leaves by being served, by its deadline, by its signal, or by an error for all.
 */
export class Waiters {
  #waiting = new Set<Waiter>();
  /**
   * The waits that each signal ends: one listener for all callers that share it, because Node warns
   * of many.
   */
  #signals = new Map<AbortSignal, { leaves: Set<Leave>; onAbort: () => void }>();

  /** How many IDs all of them want. */
  wanted = 0;

  /** Adds a caller. */
  add<T>({ n, take, deadline, endsAt, signal, onLeave }: Caller<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const leave: Leave = (error, taken) => {
        if (!this.#waiting.delete(waiter)) return;
        this.wanted -= n;
        clearTimeout(timer);
        if (signal !== undefined) this.#unlisten(signal, leave);
        if (error === undefined) resolve(taken);
        else reject(error);
        onLeave(error);
      };
      const waiter: Waiter = { n, take, leave, endsAt, failure: undefined };
      const onTimeout = () =>
        leave(waiter.failure ?? RaindropError.of('deadline', `no ID within ${deadline} ms`));
      // Not unref'd: a caller awaits this promise, so Node must not exit before it settles.
      const timer = setTimeout(onTimeout, deadline);
      if (signal !== undefined) this.#listen(signal, leave);
      this.#waiting.add(waiter);
      this.wanted += n;
    });
  }

  /** Serves callers in order. One that wants more than there is keeps nobody waiting who wants less. */
  serve(): void {
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
   * @param nextAt of the next attempt, by the age clock; by default there is none
   */
  fail(error: RaindropError, nextAt = Infinity): void {
    for (const waiter of [...this.#waiting]) {
      waiter.failure = error;
      if (waiter.endsAt <= nextAt) waiter.leave(error);
    }
  }

  #listen(signal: AbortSignal, leave: Leave): void {
    let shared = this.#signals.get(signal);
    if (shared === undefined) {
      const leaves = new Set<Leave>();
      const onAbort = () => {
        for (const one of [...leaves]) one(cancelled(signal));
      };
      shared = { leaves, onAbort };
      this.#signals.set(signal, shared);
      signal.addEventListener('abort', onAbort);
    }
    shared.leaves.add(leave);
  }

  #unlisten(signal: AbortSignal, leave: Leave): void {
    const shared = this.#signals.get(signal);
    shared?.leaves.delete(leave);
    if (shared === undefined || shared.leaves.size > 0) return;
    this.#signals.delete(signal);
    signal.removeEventListener('abort', shared.onAbort);
  }
}

export function cancelled(signal: AbortSignal): RaindropError {
  return RaindropError.of('cancelled', 'the caller cancelled', { cause: signal.reason });
}
