import type { RaindropError } from './errors.js';

/** A request was answered or failed. */
export interface RequestEvent {
  type: 'request';
  code: string;
  url: string;
  /** From before the token was asked for to the end of the answer. */
  ms: number;
  /** How many IDs were asked for. */
  upTo: number;
  /** How many came. */
  ids: number;
  error?: RaindropError | undefined;
}

/**
 * No caller will get these IDs: they expired, no UUIDs could be made of them, the time of later ones is
 * read otherwise, or the client was closed.
 */
export interface DroppedEvent {
  type: 'dropped';
  code: string;
  ids: number;
}

/** A caller had to wait, and has its IDs or the error now. */
export interface WaitEvent {
  type: 'wait';
  code: string;
  ms: number;
  error?: RaindropError | undefined;
}

export type RaindropEvent = RequestEvent | DroppedEvent | WaitEvent;

/** Two clocks in milliseconds, for tests. */
export interface Clock {
  /** Never goes back. */
  steady(): number;
  /** Unix time, in whole milliseconds; may step. */
  wall(): number;
}

/** All times are in milliseconds. */
export interface RaindropOptions {
  /** Base URLs; the one that answered last is tried first. */
  urls: readonly string[];
  /**
   * The bearer token, or a function that is called for each request, so that the token can change.
   * What it throws is an error of kind `transport`.
   */
  token?: string | (() => string | Promise<string>) | undefined;
  namespace?: string | undefined;
  /** How long a buffer should last at the present rate, at most half of `maxAge`. Default: 2000. */
  target?: number | undefined;
  /** The fewest IDs to ask for at a time. Default: 1. */
  minRange?: number | undefined;
  /** The most IDs to ask for at a time, at most the service's `http.max_range`. Default: 100 000. */
  maxRange?: number | undefined;
  /** The age at which an ID is dropped. Default: 10 000. */
  maxAge?: number | undefined;
  /** How long a call waits unless it says otherwise. Default: 2000. */
  deadline?: number | undefined;
  /**
   * How long a request may take, with the token function. Default: 5000; with several base URLs half of
   * `deadline`, but 1000 to 5000.
   */
  requestTimeout?: number | undefined;
  /** Sends the requests in place of the global `fetch`, for TLS settings or a proxy. */
  fetch?: typeof fetch | undefined;
  /** Told of requests, dropped IDs and waits. If it throws, or its promise rejects, the next refill fails. */
  onEvent?: ((event: RaindropEvent) => void) | undefined;
  /** Told of a failed refill, at most once a minute. Default: `console.warn`. */
  log?: ((message: string) => void) | undefined;
  clock?: Clock | undefined;
}

export interface CallOptions {
  /** Cancels the call. */
  signal?: AbortSignal | undefined;
  /** How long the call waits, in milliseconds. */
  deadline?: number | undefined;
}

declare global {
  // As TypeScript's `esnext.disposable` declares them, for projects that do not name this library.
  interface SymbolConstructor {
    readonly dispose: unique symbol;
    readonly asyncDispose: unique symbol;
  }
}
