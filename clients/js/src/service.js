import { readAnswer } from './answer.js';
import { RaindropError, wrap } from './errors.js';
import { post } from './request.js';

/**
 * Returns whether the next base URL may do better after an error. Everything else would be wrong with
 * the request itself, at every base URL.
 *
 * @param {RaindropError} error
 */
export const failsOver = ({ kind, status }) => kind === 'transport' || [502, 503, 504].includes(status);

/** Leases ranges from the first base URL that answers; the one that answered last comes first. */
export class Service {
  #urls;
  #context;
  /** @type {Set<AbortController>} */
  #underWay = new Set();

  /**
   * @param {{ages: import('./clock.js').AgeClock, emit: (event: object) => void, options: {
   *   urls: string[], namespace?: string, requestTimeout: number, fetch: typeof fetch,
   *   token?: string | (() => string | Promise<string>)}}} context
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
   * @param {Map<string, number>} notBefore when each base URL may be asked, by the age clock; at least
   *   one may be now. A failure sets it by its `Retry-After`
   * @returns {Promise<import('./answer.js').Answer & {asked: number}>} `asked` is the time of the
   *   age clock before the request was sent
   */
  async lease(code, upTo, notBefore) {
    const { ages } = this.#context;
    let failure;
    for (const url of [...this.#urls]) {
      if (notBefore.get(url) > ages.now()) continue;
      try {
        const answer = await this.#attempt(url, code, upTo);
        this.#urls = [url, ...this.#urls.filter((other) => other !== url)];
        return answer;
      } catch (error) {
        if (!failsOver(error)) throw error;
        notBefore.set(url, ages.now() + (error.retryAfter ?? 0));
        failure = error;
      }
    }
    throw failure;
  }

  /** Ends the requests that are under way with the error. */
  abort(error) {
    for (const controller of this.#underWay) controller.abort(error);
  }

  async #attempt(url, code, upTo) {
    const { ages, emit, options } = this.#context;
    const asked = ages.now();
    const controller = new AbortController();
    // A race, because a token function or a fetch function of the caller may ignore the signal.
    const aborted = new Promise((_, reject) => {
      controller.signal.addEventListener('abort', () => reject(controller.signal.reason));
    });
    const timer = setTimeout(() => {
      controller.abort(new RaindropError('transport', `no whole answer within ${options.requestTimeout} ms`));
    }, options.requestTimeout);
    timer.unref?.();
    this.#underWay.add(controller);
    let answer;
    let error;
    try {
      answer = readAnswer(await Promise.race([this.#send(url, code, upTo, controller.signal), aborted]), upTo);
    } catch (thrown) {
      error = wrap('the request failed', thrown);
    } finally {
      clearTimeout(timer);
      this.#underWay.delete(controller);
    }
    emit({ type: 'request', code, url, ms: ages.now() - asked, upTo, ids: answer?.total ?? 0, error });
    if (answer === undefined) throw error;
    return { ...answer, asked };
  }

  async #send(url, code, upTo, signal) {
    const { namespace, fetch, token } = this.#context.options;
    const query = namespace === undefined ? '' : `&namespace=${encodeURIComponent(namespace)}`;
    const current = typeof token === 'function' ? await token() : token;
    return post(fetch, `${url}/ids/${code}?format=range&up_to=${upTo}${query}`, current, signal);
  }
}
