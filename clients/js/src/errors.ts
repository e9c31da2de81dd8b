/** What went wrong: see the README's table of errors. */
export type ErrorKind =
  'problem' | 'invalid_answer' | 'transport' | 'deadline' | 'cancelled' | 'closed' | 'usage';

interface Fields {
  cause?: unknown;
  code?: string;
  status?: number;
  detail?: string;
  retryAfter?: number | undefined;
}

/**
 * What every call of this package fails with.
 *
 * `kind` tells the cases apart: `problem` (the service answered with a problem document),
 * `invalid_answer` (the check of an answer failed), `transport` (no whole answer came), `deadline`
 * (the caller's time is over), `cancelled`, `closed`, and `usage` (a wrong argument).
 */
export class RaindropError extends Error {
  readonly kind: ErrorKind;
  /** The problem's code, such as `lease_unavailable`, if `kind` is `problem`. */
  readonly code?: string | undefined;
  /** The HTTP status, if the service or a proxy answered with an error. */
  readonly status?: number | undefined;
  /** The problem's text for people, if `kind` is `problem`. */
  readonly detail?: string | undefined;
  /** How long the service asks to wait, in milliseconds: at most the larger of 60 000 and `maxAge`. */
  readonly retryAfter?: number | undefined;

  private constructor(kind: ErrorKind, message: string, fields: Fields) {
    const { cause, code, status, detail, retryAfter } = fields;
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'RaindropError';
    this.kind = kind;
    this.code = code;
    this.status = status;
    this.detail = detail;
    this.retryAfter = retryAfter;
  }

  /** @internal */
  static of(kind: ErrorKind, message: string, fields: Fields = {}): RaindropError {
    return new RaindropError(kind, message, fields);
  }
}

export const usage = (message: string) => RaindropError.of('usage', message);

export const invalid = (message: string) => RaindropError.of('invalid_answer', message);

export const closed = () => RaindropError.of('closed', 'the client is closed');

/**
 * Returns a RaindropError unchanged, and anything else that was thrown as the cause of one of kind
 * `transport`.
 *
 * @param what what failed
 */
export function wrap(what: string, thrown: any): RaindropError {
  if (thrown instanceof RaindropError) return thrown;
  // `fetch` hides the reason of a failure in `cause`.
  const reasons = [what, thrown?.message ?? typeof thrown, thrown?.cause?.message];
  return RaindropError.of('transport', reasons.filter(Boolean).join(': '), { cause: thrown });
}
