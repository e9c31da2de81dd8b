// Inspect: IDs from anywhere, one in full or many as a table.
import { address, getJson } from './api.js';
import { card, debounce, field, h, muted, problem, select, table } from './dom.js';
import { ENCODINGS, guess } from './encodings.js';
import { number, relative, t } from './i18n.js';
import { details } from './parsed.js';
import { isDescription, layouts, namespaces } from './settings.js';

const MOST = 1000;
const AT_A_TIME = 8;
const MARKS = 6;
const DESCRIBED = 'layout=';

async function parse(text, encoding, where) {
  const read = encoding === 'auto' ? guess(text) : encoding;
  const plain = read === 'hex' ? text.replace(/^0x/i, '') : text;
  const path = `/parse/${encodeURIComponent(plain)}`;
  return getJson(address(path, { ...where, encoding: read === 'decimal' ? '' : read }));
}

// Every text with what it is, or why it is none; a few requests at a time.
async function parseAll(texts, encoding, where, isStale) {
  const results = [];
  let next = 0;
  const worker = async () => {
    while (next < texts.length && !isStale()) {
      const index = next;
      next += 1;
      try {
        results[index] = { text: texts[index], parsed: await parse(texts[index], encoding, where) };
      } catch (error) {
        results[index] = { text: texts[index], error };
      }
    }
  };
  await Promise.all(Array.from({ length: AT_A_TIME }, worker));
  return results;
}

function listed(good) {
  const sorted = good.map(({ parsed }) => parsed).sort((a, b) => a.unix_ms - b.unix_ms || Number(BigInt(a.id) - BigInt(b.id)));
  const worker = (one) => `${one.data_center}-${one.worker_id}`;
  const times = new Map();
  for (const one of sorted) times.set(worker(one), (times.get(worker(one)) ?? 0) + 1);
  const shared = [...times.keys()].filter((key) => times.get(key) > 1);
  const mark = (one) => {
    const at = shared.indexOf(worker(one));
    const told = t('{n} IDs of this worker', { n: times.get(worker(one)) });
    return h('span', at < 0 ? {} : { class: `mark mark-${at % MARKS}`, title: told }, String(one.worker_id));
  };
  const row = (one) => ({ cells: [
    h('a', { class: 'mono', href: `#inspect?ids=${one.id}` }, one.id),
    h('time', { datetime: one.timestamp, class: one.warning && 'soon', title: one.warning }, one.timestamp), relative(one.unix_ms), String(one.data_center), mark(one),
    String(one.lane), String(one.sequence), one.js_safe ? t('yes') : t('no'),
  ] });
  const heads = ['ID', t('Time (UTC)'), t('Age'), t('Data centre'), t('Worker'), t('Lane'), t('Sequence'), t('Safe in JavaScript')];
  return card(t('{n} IDs by time', { n: number(sorted.length) }),
    shared.length > 0 && muted(t('Workers with the same colour are the same worker.')),
    table(t('IDs by time'), heads, sorted.map(row)));
}

export function mount(panel, { params, save }) {
  const input = h('textarea', { rows: 3, spellcheck: 'false', autocomplete: 'off', value: (params.get('ids') ?? '').replaceAll(',', '\n') });
  const encoding = select([['auto', t('find out')], ...ENCODINGS.map((name) => [name])], params.get('encoding') ?? 'auto');
  const isDescribed = isDescription(params.get('layout'));
  const given = isDescribed ? DESCRIBED : params.get('layout') ? `layout=${params.get('layout')}` : params.get('namespace') ? `namespace=${params.get('namespace')}` : '';
  const known = namespaces.filter((one) => one.fields.length).map((one) => one.name);
  const spaces = [...new Set([...known, params.get('namespace')])].filter(Boolean).map((name) => [`namespace=${name}`, t('namespace {name}', { name })]);
  const others = layouts.map(({ name }) => [`layout=${name}`, t('layout {name}', { name })]);
  const where = select([['', t('this service')], ...spaces, ...others, [DESCRIBED, t('a layout to describe')]], given);
  const text = (value, placeholder) => h('input', { value, placeholder, spellcheck: 'false', autocomplete: 'off', autocapitalize: 'none' });
  const description = text(isDescribed ? params.get('layout') : '', 'time:39@10ms,sequence:8,worker:16');
  const epoch = text(params.get('epoch') ?? '', '1970-01-01T00:00:00Z');
  const describing = field(t('Fields'), description, t('From the most significant, with their widths in bits.'));
  const beginning = field(t('Epoch'), epoch, t('If it is not the usual one of the layout.'));
  const output = h('div', { 'aria-live': 'polite' });
  let run = 0;

  async function show() {
    const mine = (run += 1);
    const texts = input.value.split(/[\s,;"'[\]]+/).filter(Boolean);
    const [key, name] = where.value.split('=');
    describing.hidden = where.value !== DESCRIBED;
    beginning.hidden = key !== 'layout';
    const value = describing.hidden ? name : description.value.trim();
    const by = key && value ? { [key]: value, ...(key === 'layout' && epoch.value.trim() && { epoch: epoch.value.trim() }) } : {};
    save({ ids: texts.slice(0, MOST).join(','), encoding: encoding.value === 'auto' ? '' : encoding.value, ...by });
    if (!texts.length) return output.replaceChildren(muted(t('An ID tells when and by which worker it was made. To read those of other systems, choose their layout.')));
    if (texts.length > MOST) return output.replaceChildren(problem({ detail: t('{n} IDs: at most {most} at a time', { n: number(texts.length), most: number(MOST) }) }));
    const results = await parseAll(texts, encoding.value, by, () => mine !== run);
    if (mine !== run) return;
    const good = results.filter((one) => one.parsed);
    const bad = results.map((one, index) => ({ ...one, line: index + 1 })).filter((one) => one.error);
    const why = ({ line, text, error }) => h('li', {}, h('b', {}, `${line}. `), h('code', { class: 'wrap' }, text), ' ', error.detail ?? String(error));
    output.replaceChildren(...[
      bad.length && card(t('Not read'), h('ul', { class: 'bad' }, bad.map(why))),
      good.length === 1 && h('section', { class: 'card' }, h('h2', { class: 'away' }, 'ID'), details(good[0].parsed)),
      good.length > 1 && listed(good),
    ].filter(Boolean));
  }

  for (const control of [input, description, epoch]) control.addEventListener('input', debounce(300, show));
  for (const control of [encoding, where]) control.addEventListener('change', show);
  panel.append(h('section', { class: 'card' }, h('h2', { class: 'away' }, t('Inspect')),
    field(t('IDs'), input, t('Up to 1000, in lines or with commas or blanks between them.')),
    h('div', { class: 'controls' }, field(t('Encoding'), encoding), field(t('Read as'), where), describing, beginning)), output);
  show();
  return { stop: () => (run += 1), refresh: show };
}
