// Try: IDs for a code, the newest one with its bits, and the request for programs.
import { address, getJson, request } from './api.js';
import { columns } from './chart.js';
import { announce, card, copyButton, field, h, muted, pre, problem, select, typed } from './dom.js';
import { ENCODINGS } from './encodings.js';
import { number, relative, t } from './i18n.js';
import { bits } from './parsed.js';
import { chooser, namespaces, settings } from './settings.js';

const MOST = Math.min(1000, settings.max_batch);
// Nobody else's: looking at the page uses up no ID of a code that counts.
const FREE = 'try';
const KEPT = 1000;
const FORMATS = ['string', 'number', 'range', 'text'];

let received = [];

// The request in languages that compile or have no fetch.
function programs(url, headers) {
  const text = JSON.stringify;
  const pairs = Object.entries(headers);
  const each = (write, between = '') => pairs.map(([name, value]) => write(text(name), text(value))).join(between);
  return [
    ['Java', `HttpRequest request = HttpRequest.newBuilder(URI.create(${text(url)}))${each((name, value) => `.header(${name}, ${value})`)}.build();
String answer = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString()).body();`],
    ['Go', pairs.length ? `request, err := http.NewRequest("GET", ${text(url)}, nil)
${each((name, value) => `request.Header.Set(${name}, ${value})\n`)}response, err := http.DefaultClient.Do(request)` : `response, err := http.Get(${text(url)})`],
    ['Python', `request = urllib.request.Request(${text(url)}${pairs.length ? `, headers={${each((name, value) => `${name}: ${value}`, ', ')}}` : ''})
answer = ${headers.Accept ? 'urllib.request.urlopen(request).read().decode()' : 'json.load(urllib.request.urlopen(request))'}`],
    ['C#', `using var client = new HttpClient();
${each((name, value) => `client.DefaultRequestHeaders.Add(${name}, ${value});\n`)}var answer = await client.GetStringAsync(${text(url)});`],
  ];
}

// Every ID of an answer, in whichever format.
function idsOf(answer) {
  if (typeof answer === 'string') return answer.trim().split('\n');
  if (answer.ranges) {
    return answer.ranges.flatMap(({ first, step, count, repeat = 1, stride = 0 }) =>
      Array.from({ length: count * repeat }, (_, index) => {
        const times = Math.floor(index / count);
        return (answer.prefix ?? '') + (BigInt(first) + BigInt(step) * BigInt(index % count) + BigInt(stride) * BigInt(times));
      }));
  }
  return (answer.ids ?? [answer.id]).map(String);
}

export function mount(panel, { params, save }) {
  const plain = namespaces.some((one) => one.name === 'default' && one.fields.length);
  const code = typed({ value: params.get('code') ?? FREE, required: true });
  const count = h('input', { type: 'number', min: 1, max: MOST, value: params.get('n') ?? '1', required: true });
  const namespace = chooser(namespaces, params.get('namespace') ?? '', t('by code'));
  const encoding = select(ENCODINGS.map((name) => [name]), params.get('encoding') ?? 'decimal');
  const format = select(FORMATS.map((name) => [name]), params.get('format') ?? 'string');
  const modulus = h('input', { type: 'number', min: 2, max: 64, value: params.get('k') ?? '8' });
  const newest = h('div', { class: 'newest' });
  const answer = h('div', {});
  const ways = h('div', {});
  const others = h('div', {});
  const spread = h('div', {});
  const isDefault = () => code.value === FREE && !namespace.value;

  const unless = (control, usual) => (control.value === usual ? '' : control.value);

  function target() {
    const many = count.value !== '1' || format.value === 'range';
    return address(`/${many ? 'ids' : 'id'}/${encodeURIComponent(code.value)}`, {
      n: many ? count.value : '', namespace: namespace.value,
      encoding: unless(encoding, 'decimal'),
      format: ['string', 'text'].includes(format.value) ? '' : format.value,
    });
  }

  function showWays() {
    save({
      code: unless(code, FREE), n: unless(count, '1'), namespace: namespace.value,
      encoding: unless(encoding, 'decimal'), format: unless(format, 'string'), k: unless(modulus, '8'),
    });
    const url = location.origin + target().replaceAll("'", '%27');
    const headers = {};
    if (format.value === 'text') headers.Accept = 'text/plain';
    if (settings.needs_token) headers.Authorization = 'Bearer $TOKEN';
    const curl = ['curl', ...Object.entries(headers).map((pair) => `-H "${pair.join(': ')}"`), `'${url}'`].join(' ');
    const options = Object.keys(headers).length ? `, { headers: ${JSON.stringify(headers)} }` : '';
    const read = format.value === 'text' ? 'text' : 'json';
    const fetched = `const answer = await (await fetch(${JSON.stringify(url)}${options})).${read}();`;
    const way = ([name, text]) => h('div', { class: 'way' }, h('span', {}, name),
      h('code', { tabindex: 0, role: 'group', 'aria-label': name }, name === t('link') ? h('a', { href: target() }, text) : text), copyButton(text, name));
    ways.replaceChildren(...[['curl', curl], ['fetch', fetched], [t('link'), url]].map(way));
    others.replaceChildren(...programs(url, headers).map(way));
  }

  function showSpread() {
    const k = Math.min(64, Math.max(2, Number(modulus.value) || 8));
    const counts = Array(k).fill(0);
    for (const id of received) counts[Number(id % BigInt(k))] += 1;
    const told = t('{n} IDs by id % {k}', { n: number(received.length), k });
    spread.replaceChildren(columns(counts, told), h('div', { class: 'row spread' },
      h('small', { class: 'mono' }, '0'), h('small', {}, told), h('small', { class: 'mono' }, String(k - 1))));
  }

  // Shows an ID with its bits; the length of the prefix of its code.
  async function showNewest(text) {
    const copy = copyButton(text, t('ID'));
    newest.replaceChildren(h('div', { class: 'row' }, h('p', { class: 'id big mono' }, text), copy));
    const space = namespace.value || undefined;
    try {
      const parsed = await getJson(address(`/parse/${encodeURIComponent(text)}`, { encoding: encoding.value, namespace: space }));
      newest.append(...[bits(parsed)].flat(), muted(`${parsed.timestamp} · ${relative(parsed.unix_ms)} · `,
        h('a', { href: `#inspect?ids=${parsed.id}&namespace=${parsed.namespace}` }, t('Inspect it'))));
      return text.endsWith(parsed.id) ? text.length - parsed.id.length : 0;
    } catch (error) {
      const isNumber = error.code === 'not_decodable';
      newest.append(isNumber ? muted(t('A plain number, without fields or a time.')) : problem(error));
      return 0;
    }
  }

  async function get(event) {
    event?.preventDefault();
    const key = [code.value, namespace.value].join();
    answer.replaceChildren();
    try {
      const headers = format.value === 'text' ? { accept: 'text/plain' } : {};
      const response = await request('GET', target(), { headers });
      const text = await response.text();
      const ids = idsOf(format.value === 'text' ? text : JSON.parse(text));
      const prefix = await showNewest(ids.at(-1));
      if (encoding.value === 'decimal') {
        if (key !== received.key) received = Object.assign([], { key });
        for (const id of ids) received.push(BigInt(id.slice(prefix)));
        received.splice(0, received.length - KEPT);
      }
      const shown = format.value === 'text' ? text : JSON.stringify(JSON.parse(text), null, 1);
      answer.replaceChildren(...(ids.length > 1 ? [pre(shown, t('Answer')), copyButton(text, t('Answer'))] : []));
      announce(t('{n} IDs', { n: ids.length }));
    } catch (error) {
      answer.replaceChildren(problem(error));
    }
    showSpread();
  }

  const form = h('form', { class: 'controls', onsubmit: get, oninput: showWays, onchange: showWays },
    field(t('Code'), code), field(t('How many'), count),
    (namespaces.length > 1 || settings.needs_token) && field(t('Namespace'), namespace),
    field(t('Encoding'), encoding), field(t('Format'), format),
    h('button', { class: 'main' }, t('Get IDs')));
  panel.append(
    h('section', { class: 'card hero' }, h('h2', { class: 'away' }, t('Newest ID')), newest, form, answer),
    h('div', { class: 'pair' },
      card(t('For programs'), ways, h('details', {}, h('summary', {}, 'Java, Go, Python, C#'), others)),
      card(t('Spread over shards'), muted(t('How evenly id % k chooses among k tables.')),
        h('div', { class: 'narrow' }, field('k', modulus)), spread)));
  modulus.addEventListener('input', () => {
    showWays();
    showSpread();
  });
  showWays();
  showSpread();
  if (plain && isDefault() && !settings.needs_token) get();
  else newest.append(muted(t('No ID was claimed yet.')));
  return { refresh: () => (plain && isDefault() && !settings.needs_token ? get() : undefined) };
}
