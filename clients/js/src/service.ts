import { readAnswer } from './answer.js';
import type { Answer } from './answer.js';
import type { Context } from './client.js';
import { RaindropError, wrap } from './errors.js';
import { post } from './request.js';

/** Problems with these statuses are of one node, or of one moment. */
const OF_ONE_NODE = [401, 408, 425, 429];

/** Returns whether every base URL would answer so, now and later. */
export function isCertain({ kind, status = 0 }: RaindropError): boolean {
  const isOfRequest =
    kind === 'problem' && status >= 400 && status < 500 && !OF_ONE_NODE.includes(status);
  return isOfRequest || kind === 'usage' || kind === 'closed';
}

/** An answer, and the time of the age clock before its request was sent. */
export type Lease = Answer & { asked: number };

/** Leases ranges from the first base URL that answers; the one that answered last comes first. */
export class Service {
  #urls: string[];
  #context: Pick<Context, 'ages' | 'emit' | 'options'>;
  #underWay = new Set<AbortController>();

  constructor(context: Pick<Context, 'ages' | 'emit' | 'options'>) {
    this.#urls = context.options.urls;
    this.#context = context;
  }

  /**
   * Leases at most `upTo` IDs. Tries every base URL once that may be asked; if all fail, throws the
   * last error.
   *
   * @param notBefore when each base URL may be asked, by the age clock. The one that may be asked
   *   first is asked in any case. A failure sets it by its `Retry-After`
   * @param accept takes an answer, or throws if it cannot be used
   */
  async lease(
    code: string,
    upTo: number,
    notBefore: Map<string, number>,
    accept: (answer: Lease) => void,
  ): Promise<void> {
    const { ages } = this.#context;
    const soonest = Math.min(...notBefore.values());
    let failure;
    for (const url of [...this.#urls]) {
      if ((notBefore.get(url) ?? 0) > Math.max(soonest, ages.now())) continue;
      try {
        await this.#attempt(url, code, upTo, accept);
        this.#urls = [url, ...this.#urls.filter((other) => other !== url)];
        return;
      } catch (thrown) {
        const error = thrown as RaindropError;
        if (isCertain(error)) throw error;
        notBefore.set(url, ages.now() + (error.retryAfter ?? 0));
        failure = error;
      }
    }
    throw failure;
  }

  /** Ends the requests that are under way with the error. */
  abort(error: RaindropError): void {
    for (const controller of this.#underWay) controller.abort(error);
  }

  async #attempt(
    url: string,
    code: string,
    upTo: number,
    accept: (answer: Lease) => void,
  ): Promise<void> {
    const { ages, emit, options } = this.#context;
    const asked = ages.now();
    const controller = new AbortController();
    // A race, because a token function or a fetch function of the caller may ignore the signal.
    const aborted = new Promise<never>((_, reject) => {
      controller.signal.addEventListener('abort', () => reject(controller.signal.reason));
    });
    // A number in browsers, and an object in Node.
    const timer: any = setTimeout(() => {
      controller.abort(
        RaindropError.of('transport', `no whole answer within ${options.requestTimeout} ms`),
      );
    }, options.requestTimeout);
    timer.unref?.();
    this.#underWay.add(controller);
    let ids = 0;
    let error: RaindropError | undefined;
    try {
      const answer = readAnswer(
        await Promise.race([this.#send(url, code, upTo, controller.signal), aborted]),
        upTo,
      );
      accept({ ...answer, asked });
      ids = answer.total;
    } catch (thrown) {
      error = wrap('the request failed', thrown);
    } finally {
      clearTimeout(timer);
      this.#underWay.delete(controller);
    }
    emit({ type: 'request', code, url, ms: ages.now() - asked, upTo, ids, error });
    if (error !== undefined) throw error;
  }

  async #send(url: string, code: string, upTo: number, signal: AbortSignal): Promise<string> {
    const { namespace, fetch, token, maxAge } = this.#context.options;
    const query = namespace === undefined ? '' : `&namespace=${encodeURIComponent(namespace)}`;
    const current = typeof token === 'function' ? await token() : token;
    const target = `${url}/ids/${code}?format=range&up_to=${upTo}${query}`;
    return post(fetch, target, current, signal, maxAge);
  }
}
