import { readAnswer } from './answer.js';
import { RaindropError, wrap } from './errors.js';
import { post } from './request.js';

/** Problems with these statuses are of one node, or of one moment. */
const OF_ONE_NODE = [401, 408, 425, 429];

/**
 * Returns whether every base URL would answer so, now and later.
 *
 * @param {RaindropError} error
 */
export function isCertain({ kind, status = 0 }) {
  const isOfRequest =
    kind === 'problem' && status >= 400 && status < 500 && !OF_ONE_NODE.includes(status);
  return isOfRequest || kind === 'usage' || kind === 'closed';
}

/**
 * @typedef {import('./answer.js').Answer & {asked: number}} Lease `asked` is the time of the age clock
 *   before the request was sent
 */

/** Leases ranges from the first base URL that answers; the one that answered last comes first. */
export class Service {
  #urls;
  #context;
  /** @type {Set<AbortController>} */
  #underWay = new Set();

  /**
   * @param {Pick<import('./client.js').Context, 'ages' | 'emit' | 'options'>} context
   */
  constructor(context) {
    this.#urls = context.options.urls;
    this.#context = context;
  }

  /**
   * Leases at most `upTo` IDs. Tries every base URL once that may be asked; if all fail, throws the
   * last error.
   *
   * @param {string} code
   * @param {number} upTo
   * @param {Map<string, number>} notBefore when each base URL may be asked, by the age clock. The one
   *   that may be asked first is asked in any case. A failure sets it by its `Retry-After`
   * @param {(answer: Lease) => void} accept takes an answer, or throws if it cannot be used
   */
  async lease(code, upTo, notBefore, accept) {
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
        const error = /** @type {RaindropError} */ (thrown);
        if (isCertain(error)) throw error;
        notBefore.set(url, ages.now() + (error.retryAfter ?? 0));
        failure = error;
      }
    }
    throw failure;
  }

  /**
   * Ends the requests that are under way with the error.
   *
   * @param {RaindropError} error
   */
  abort(error) {
    for (const controller of this.#underWay) controller.abort(error);
  }

  /**
   * @param {string} url
   * @param {string} code
   * @param {number} upTo
   * @param {(answer: Lease) => void} accept
   */
  async #attempt(url, code, upTo, accept) {
    const { ages, emit, options } = this.#context;
    const asked = ages.now();
    const controller = new AbortController();
    // A race, because a token function or a fetch function of the caller may ignore the signal.
    /** @type {Promise<never>} */
    const aborted = new Promise((_, reject) => {
      controller.signal.addEventListener('abort', () => reject(controller.signal.reason));
    });
    /** @type {any} a number in browsers, and an object in Node */
    const timer = setTimeout(() => {
      controller.abort(
        new RaindropError('transport', `no whole answer within ${options.requestTimeout} ms`),
      );
    }, options.requestTimeout);
    timer.unref?.();
    this.#underWay.add(controller);
    let ids = 0;
    let error;
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

  /**
   * @param {string} url
   * @param {string} code
   * @param {number} upTo
   * @param {AbortSignal} signal
   */
  async #send(url, code, upTo, signal) {
    const { namespace, fetch, token, maxAge } = this.#context.options;
    const query = namespace === undefined ? '' : `&namespace=${encodeURIComponent(namespace)}`;
    const current = typeof token === 'function' ? await token() : token;
    const target = `${url}/ids/${code}?format=range&up_to=${upTo}${query}`;
    return post(fetch, target, current, signal, maxAge);
  }
}
