// Requests to the service: the token, problems, and a service that is away.
import { askToken } from './dialog.js';
import { t } from './i18n.js';

// Events: `token` when it was given or forgotten, `down` and `up` with the service.
export const service = new EventTarget();
let token;
let asking;
let declined = false;
let isDown = false;

const tell = (name, detail) => service.dispatchEvent(new CustomEvent(name, { detail }));
export const hasToken = () => token !== undefined;

export function forgetToken() {
  token = undefined;
  declined = true;
  tell('token');
}

async function wantToken(why) {
  asking ??= askToken(why).finally(() => (asking = undefined));
  const given = await asking;
  if (given === undefined) {
    declined = true;
    return false;
  }
  // More than one request may have waited for it.
  token = given;
  declined = false;
  tell('token');
  return true;
}

async function send(method, path, options, used) {
  const headers = { ...options.headers };
  if (used !== undefined) headers.authorization = `Bearer ${used}`;
  if (options.body !== undefined) headers['content-type'] = 'application/json';
  const body = options.body === undefined ? undefined : JSON.stringify(options.body);
  try {
    const response = await fetch(path, { method, headers, body, cache: 'no-cache', signal: AbortSignal.timeout(30000) });
    if (isDown) {
      isDown = false;
      tell('up');
    }
    return response;
  } catch {
    if (!isDown) {
      isDown = true;
      retry(1);
    }
    throw { away: true, detail: t('the service does not answer') };
  }
}

// Asks until the service is back, less and less often.
function retry(seconds) {
  tell('down', seconds);
  setTimeout(async () => {
    try {
      await send('GET', '/livez', {});
    } catch {
      retry(Math.min(15, seconds * 2));
    }
  }, seconds * 1000);
}

// Sends a request and returns its response; a problem document is thrown. With `quiet`, nobody who
// has closed the question for a token is asked again.
export async function request(method, path, options = {}) {
  for (;;) {
    const used = token;
    const response = await send(method, path, options, used);
    if (response.ok) return response;
    const text = await response.text();
    let problem;
    try {
      problem = JSON.parse(text);
    } catch {
      problem = { status: response.status, detail: `${response.status} ${response.statusText}` };
    }
    if (response.status !== 401) throw problem;
    const isNewer = token !== used;
    if (!isNewer && ((options.quiet && declined) || !(await wantToken(problem.detail)))) throw problem;
  }
}

export const getJson = async (path, options) => (await request('GET', path, options)).json();
export const change = async (method, path, body, headers) => (await request(method, path, { body, headers })).json();

// An address with a query, without parameters that are empty.
export function address(path, parameters) {
  const given = Object.entries(parameters).filter(([, value]) => (value ?? '') !== '');
  const query = new URLSearchParams(given).toString();
  return query ? `${path}?${query}` : path;
}
