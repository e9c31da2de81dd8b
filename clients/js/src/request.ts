import { parseJson } from './answer.js';
import { invalid, RaindropError } from './errors.js';

type Fetch = typeof globalThis.fetch;

const LARGEST_BODY = 1024 * 1024;

/** The longest `Retry-After` that counts, unless `maxAge` is longer, in milliseconds. */
const LONGEST_RETRY_AFTER = 60_000;

/** How the socket of a kept connection fails that the far end has dropped. */
const DROPPED = ['ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET'];

/** A browser has a name of its own, and would ask the service first whether another one is allowed. */
const NAME = globalThis.document === undefined && { 'User-Agent': 'raindrop-js/0.1.0' };

/**
 * Sends one request and returns the text of its answer, which has status 200 and is JSON.
 *
 * @param maxAge in milliseconds
 * @throws {RaindropError} of kind `problem`, `invalid_answer` or `transport`, and what `fetch` throws
 */
export async function post(
  fetch: Fetch,
  url: string,
  token: string | undefined,
  signal: AbortSignal,
  maxAge: number,
): Promise<string> {
  const headers = {
    Accept: 'application/json',
    ...NAME,
    ...(token !== undefined && { Authorization: `Bearer ${token}` }),
  };
  // The token goes to nobody else, and no cache or cookie has a part in this.
  const response = await fetchAgain(fetch, url, {
    method: 'POST',
    redirect: 'error',
    credentials: 'omit',
    cache: 'no-store',
    headers,
    signal,
  });
  const text = await readText(response);
  if (response.status !== 200) throw problem(response, text, maxAge);
  if (!isOfType(response, 'application/json')) {
    throw invalid(`the answer is ${response.headers.get('content-type')}, not application/json`);
  }
  return text;
}

/** Calls `fetch`, a second time if no head of an answer came because a kept connection had ended. */
async function fetchAgain(fetch: Fetch, url: string, init: RequestInit): Promise<Response> {
  try {
    return await fetch(url, init);
  } catch (error: any) {
    if (!DROPPED.includes(error?.cause?.code)) throw error;
    // A new connection may be well. IDs that were issued are a gap.
    return fetch(url, init);
  }
}

async function readText({ body }: Response): Promise<string> {
  const reader = body?.getReader();
  const decoder = new TextDecoder();
  let text = '';
  for (let size = 0; reader !== undefined;) {
    const { done, value } = await reader.read();
    if (done) break;
    size += value.byteLength;
    if (size > LARGEST_BODY) {
      reader.cancel().catch(() => {});
      throw invalid('the answer is larger than 1 MiB');
    }
    text += decoder.decode(value, { stream: true });
  }
  return text + decoder.decode();
}

/**
 * Returns the error of an answer whose status is not 200.
 *
 * @param text its body
 * @param maxAge in milliseconds
 */
function problem(response: Response, text: string, maxAge: number): RaindropError {
  const { status } = response;
  const seconds = response.headers.get('retry-after') ?? '';
  const longest = Math.max(LONGEST_RETRY_AFTER, maxAge);
  const retryAfter = /^[0-9]+$/.test(seconds)
    ? Math.min(Number(seconds) * 1000, longest)
    : undefined;
  const { code, detail = '' } =
    (isOfType(response, 'application/problem+json') && parseJson(text)) || {};
  if (typeof code !== 'string' || typeof detail !== 'string') {
    return RaindropError.of('transport', `status ${status} without a problem document`, {
      status,
      retryAfter,
    });
  }
  return RaindropError.of('problem', `${code} (${status}): ${detail}`, {
    code,
    status,
    detail,
    retryAfter,
  });
}

/** @param type a media type in lower case */
function isOfType(response: Response, type: string): boolean {
  return response.headers.get('content-type')?.split(';')[0]!.trim().toLowerCase() === type;
}
