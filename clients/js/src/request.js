import { parseJson } from './answer.js';
import { invalid, RaindropError } from './errors.js';

const LARGEST_BODY = 1024 * 1024;

/**
 * Sends one request and returns the text of its answer, which has status 200 and is JSON.
 *
 * @param {typeof fetch} fetch
 * @param {string} url
 * @param {string | undefined} token
 * @param {AbortSignal} signal
 * @throws {RaindropError} of kind `problem`, `invalid_answer` or `transport`, and what `fetch` throws
 */
export async function post(fetch, url, token, signal) {
  const headers = { Accept: 'application/json', ...(token !== undefined && { Authorization: `Bearer ${token}` }) };
  // The token goes to nobody else, and no cache or cookie has a part in this.
  const response = await fetch(url, { method: 'POST', redirect: 'error', credentials: 'omit', cache: 'no-store', headers, signal });
  const text = await readText(response);
  if (response.status !== 200) throw problem(response, text);
  if (!isOfType(response, 'application/json')) {
    throw invalid(`the answer is ${response.headers.get('content-type')}, not application/json`);
  }
  return text;
}

/** @param {Response} response */
async function readText({ body }) {
  const reader = body?.getReader();
  const decoder = new TextDecoder();
  let text = '';
  for (let size = 0; reader !== undefined; ) {
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

/** @param {Response} response */
function problem(response, text) {
  const { status } = response;
  const seconds = response.headers.get('retry-after') ?? '';
  const retryAfter = /^[0-9]{1,9}$/.test(seconds) ? Number(seconds) * 1000 : undefined;
  const { code, detail = '' } = (isOfType(response, 'application/problem+json') && parseJson(text)) || {};
  if (typeof code !== 'string' || typeof detail !== 'string') {
    return new RaindropError('transport', `status ${status} without a problem document`, { status, retryAfter });
  }
  return new RaindropError('problem', `${code} (${status}): ${detail}`, { code, status, detail, retryAfter });
}

/** @param {Response} response */
function isOfType(response, type) {
  return response.headers.get('content-type')?.split(';')[0].trim().toLowerCase() === type;
}
