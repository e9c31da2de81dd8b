// Sends requests to the service: adds the token, reads problems, and watches whether the service is
// up.
import { askToken } from './dialog.js';
import { t } from './i18n.js';

// Events: `token` when the user entered or removed it, `down` and `up` when the service changes.
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
  // Several requests may have waited for the token.
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

// Probes until the service is back, with growing pauses.
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

// Sends a request and returns its response; throws a problem document. With `quiet`, it does not
// ask again for a token after the user has closed that dialog.
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

// Returns an address with a query, leaving out empty parameters.
export function address(path, parameters) {
  const given = Object.entries(parameters).filter(([, value]) => (value ?? '') !== '');
  const query = new URLSearchParams(given).toString();
  return query ? `${path}?${query}` : path;
}
