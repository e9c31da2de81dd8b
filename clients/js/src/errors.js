/**
 * What every call of this package fails with.
 *
 * `kind` tells the cases apart: `problem` (the service answered with a problem document),
 * `invalid_answer` (the check of an answer failed), `transport` (no whole answer came), `deadline`
 * (the caller's time is over), `cancelled`, `closed`, and `usage` (a wrong argument).
 */
export class RaindropError extends Error {
  /**
   * @param {import('../index.d.ts').ErrorKind} kind
   * @param {string} message
   * @param {{cause?: unknown, code?: string, status?: number, detail?: string, retryAfter?: number}} [fields]
   *   `code` and `detail` are those of a problem document; `retryAfter` is in milliseconds.
   */
  constructor(kind, message, { cause, code, status, detail, retryAfter } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'RaindropError';
    this.kind = kind;
    this.code = code;
    this.status = status;
    this.detail = detail;
    this.retryAfter = retryAfter;
  }
}

/** @param {string} message */
export const usage = (message) => new RaindropError('usage', message);

/** @param {string} message */
export const invalid = (message) => new RaindropError('invalid_answer', message);

/**
 * Returns a RaindropError unchanged, and anything else that was thrown as the cause of one of kind
 * `transport`.
 *
 * @param {string} what what failed
 * @param {any} thrown
 */
export function wrap(what, thrown) {
  if (thrown instanceof RaindropError) return thrown;
  // `fetch` hides the reason of a failure in `cause`.
  const reasons = [what, thrown?.message ?? typeof thrown, thrown?.cause?.message];
  return new RaindropError('transport', reasons.filter(Boolean).join(': '), { cause: thrown });
}

export const closed = () => new RaindropError('closed', 'the client is closed');
