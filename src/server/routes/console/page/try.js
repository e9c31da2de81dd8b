// The tab "Try": IDs for a code, the bits of the newest one, and the request for programs.
import { address, getJson, request } from './api.js';
import { columns } from './chart.js';
import { announce, card, copyButton, field, h, muted, pre, problem, put, select, typed } from './dom.js';
import { ENCODINGS, guess, label } from './encodings.js';
import { number, relative, t, told } from './i18n.js';
import { live } from './live.js';
import { bits } from './parsed.js';
import { chooser, namespaces, settings, timed } from './settings.js';

const MOST = Math.min(1000, settings.max_batch);
// A code of this page, so that trying it uses up no ID of a real segment code.
const FREE = 'try';
const KEPT = 1000;
// In ms: an ID that was claimed just now, and decodes to a time further from now, is of another
// layout. Two days, because some layouts count days.
const FAR = 2 * 864e5;
const FORMATS = ['string', 'number', 'range', 'text'];

// Whether an ID may be of a namespace that the page does not know.
const several = namespaces.length > 1 || settings.needs_token;

let received = [];

// The request in languages that are compiled or lack fetch.
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

// Returns every ID of a response, in any format.
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
  const plain = timed.some((one) => one.name === 'default');
  const code = typed({ value: params.code ?? FREE, required: true });
  const count = h('input', { type: 'number', min: 1, max: MOST, value: params.n ?? '1', required: true });
  const namespace = chooser(namespaces, params.namespace ?? '', t('by code'));
  const encoding = select(ENCODINGS.map((name) => [name, label(name)]), params.encoding ?? 'decimal');
  const format = select(FORMATS, params.format ?? 'string');
  const modulus = h('input', { type: 'number', min: 2, max: 64, value: params.k ?? '8' });
  const newest = h('.newest');
  const [answer, ways, others, spread] = [h(), h(), h(), h()];
  const isDefault = () => code.value === FREE && !namespace.value;

  const unless = (control, usual) => (control.value === usual ? '' : control.value);

  function target(n = count.value) {
    const many = n !== '1' || format.value === 'range';
    return address(`/${many ? 'ids' : 'id'}/${encodeURIComponent(code.value)}`, {
      n: many ? n : '', namespace: namespace.value,
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
    const way = ([name, text]) => h('.way', h('span', name),
      h('code', { tabindex: 0, role: 'group', 'aria-label': name }, name === t('link') ? h('a', { href: target() }, text) : text), copyButton(text, name));
    put(ways, [['curl', curl], ['fetch', fetched], [t('link'), url]].map(way));
    put(others, programs(url, headers).map(way));
  }

  function showSpread() {
    const k = Math.min(64, Math.max(2, Number(modulus.value) || 8));
    const counts = Array(k).fill(0);
    for (const id of received) counts[Number(id % BigInt(k))] += 1;
    const told = t('{n} IDs by id % {k}', { n: number(received.length), k });
    put(spread, columns(counts, told), h('.row.spread',
      h('small.mono', '0'), h('small', told), h('small.mono', k - 1)));
  }

  // The encoding of an answer. If the page requested none, the code's own encoding may apply.
  const encodingOf = (text) => (encoding.value === 'decimal' ? guess(text) : encoding.value);

  // Decodes an ID, or explains why it cannot be decoded.
  async function decode(text) {
    const own = namespace.value;
    try {
      const parsed = await getJson(address(`/parse/${encodeURIComponent(text)}`, { encoding: encodingOf(text), namespace: own }), { quiet: true });
      if (parsed.uuid_version !== undefined) return t('A UUID of another system, of version {n}.', { n: parsed.uuid_version });
      // A code may be bound to another namespace; then its ID, decoded here, has another time.
      return several && !own && Math.abs(parsed.unix_ms - Date.now()) > FAR ? t('Choose its namespace to see its time.') : parsed;
    } catch (error) {
      if (error.code !== 'not_decodable') throw error;
      return t('A plain number, without fields or a time.');
    }
  }

  // Sends a request, and returns the response with every ID in it.
  async function claim(path, quiet) {
    const isText = format.value === 'text';
    const text = await (await request('GET', path, { quiet, headers: isText ? { accept: 'text/plain' } : {} })).text();
    return [text, idsOf(isText ? text : JSON.parse(text))];
  }

  // Shows an ID with its bits.
  async function showNewest(text) {
    const more = h();
    put(newest, h('.row', h('p.id.big.mono', text), copyButton(text, t('ID'))), more);
    try {
      const parsed = await decode(text);
      put(more, parsed.id ? [bits(parsed), muted(`${parsed.timestamp} · ${relative(parsed.unix_ms)} · `,
        h('a', { href: `#inspect?ids=${parsed.id}&namespace=${parsed.namespace}` }, t('Inspect it')))] : muted(parsed));
    } catch (error) {
      put(more, problem(error));
    }
  }

  async function get(event) {
    event?.preventDefault();
    const key = [code.value, namespace.value].join();
    put(answer);
    try {
      const [text, ids] = await claim(target());
      await showNewest(ids.at(-1));
      if (encoding.value === 'decimal' && ids.every((id) => /^([A-Za-z].*[._:-])?\d{1,19}$/.test(id))) {
        if (key !== received.key) received = Object.assign([], { key });
        // Without the prefix of the code, which ends in no digit.
        for (const id of ids) received.push(BigInt(id.match(/\d+$/)[0]));
        received.splice(0, received.length - KEPT);
      }
      const shown = format.value === 'text' ? text : JSON.stringify(JSON.parse(text), null, 1);
      put(answer, ids.length > 1 && [pre(shown, t('Answer')), copyButton(text, t('Answer'))]);
      announce(t('{n} IDs', { n: ids.length }));
    } catch (error) {
      put(answer, problem(error));
    }
    showSpread();
  }

  const stream = live(() => {
    if (!form.reportValidity()) return undefined;
    const path = target('1');
    let quiet = false;
    return async () => {
      const [, [id]] = await claim(path, quiet);
      quiet = true;
      return [id, async () => {
        const parsed = await decode(id);
        return parsed.id ? [parsed.timestamp, parsed.warning && h('span.soon', ' ', told(parsed.warning))] : parsed;
      }];
    };
  });
  const changed = () => {
    // Stopped, so that no ID of a half-typed code is claimed.
    stream.stop();
    showWays();
  };
  const form = h('form.controls', { onsubmit: get, oninput: changed, onchange: changed },
    field(t('Code'), code), field(t('How many'), count),
    several && field(t('Namespace'), namespace),
    field(t('Encoding'), encoding), field(t('Format'), format),
    h('button.main', t('Get IDs')));
  panel.append(
    h('section.card.hero', h('h2.away', t('Newest ID')), newest, form, answer, stream.element),
    h('.pair',
      card(t('For programs'), ways, h('details', h('summary', 'Java, Go, Python, C#'), others)),
      card(t('Spread over shards'), muted(t('How evenly id % k chooses among k tables.')),
        h('.narrow', field('k', modulus)), spread)));
  modulus.oninput = () => {
    showWays();
    showSpread();
  };
  showWays();
  showSpread();
  const refresh = () => plain && isDefault() && !settings.needs_token && get();
  if (!refresh()) newest.append(muted(t('No ID was claimed yet.')));
  return { stop: stream.stop, refresh };
}
