// The tab "Inspect": IDs from anywhere, one in full or many as a table.
import { address, getJson } from './api.js';
import { card, debounce, drawing, facts, field, h, muted, problem, put, select, svg, table, typed, wordsOf } from './dom.js';
import { ENCODINGS, guess } from './encodings.js';
import { number, relative, t, told } from './i18n.js';
import { details } from './parsed.js';
import { isDescription, layouts, timed } from './settings.js';
import { tip } from './tip.js';

const MOST = 1000;
const AT_A_TIME = 8;
const MARKS = 6;
const DESCRIBED = 'layout=';
// The number of implausible IDs on which other layouts are tried.
const TRIED = 3;
// So many IDs are read at once, without a sign of progress.
const FEW = 20;

async function parse(text, encoding, where) {
  const read = encoding === 'auto' ? guess(text) : encoding;
  const plain = read === 'hex' ? text.replace(/^0x/i, '') : text;
  const path = `/parse/${encodeURIComponent(plain)}`;
  const parsed = await getJson(address(path, { ...where, encoding: read === 'decimal' ? '' : read }));
  if (parsed.id) return parsed;
  throw { detail: t('A UUID of another system, of version {n}.', { n: parsed.uuid_version }) };
}

// Applies `read` to every item, with a few requests at a time; returns results or errors. `tell` gets
// the number of items that are read.
async function each(items, read, isStale, tell) {
  const results = [];
  let next = 0;
  let done = 0;
  const worker = async () => {
    while (next < items.length && !isStale()) {
      const index = next;
      next += 1;
      try {
        results[index] = { item: items[index], parsed: await read(items[index]) };
      } catch (error) {
        results[index] = { item: items[index], error };
      }
      done += 1;
      tell?.(done);
    }
  };
  await Promise.all(Array.from({ length: AT_A_TIME }, worker));
  return results;
}

// Finds the layouts in which the times of these IDs are plausible, and returns links to them.
async function guessLayout(good, params, isStale) {
  const ids = good.filter(({ parsed }) => parsed.warning).slice(0, TRIED).map(({ parsed }) => parsed.id);
  const candidates = [
    ...timed.map(({ name }) => ({ namespace: name })), ...layouts.map(({ name }) => ({ layout: name })),
  ];
  const read = async (where) => {
    const all = await Promise.all(ids.map((id) => parse(id, 'decimal', where)));
    if (all.some((one) => one.warning)) throw { detail: '' };
    return all[0];
  };
  const fitting = (await each(candidates, read, isStale)).filter((one) => one?.parsed)
    .sort((a, b) => b.parsed.unix_ms - a.parsed.unix_ms);
  const link = ({ item, parsed }) => h('li', h('a', { href: `#${address('inspect', { ...params, ...item })}` }, t(item.layout ? 'layout {name}' : 'namespace {name}', { name: item.layout ?? item.namespace })),
    ' ', h('span.muted', `${parsed.timestamp} · ${relative(parsed.unix_ms)}`));
  return fitting.length > 0 && card(t('Another layout?'), muted(t('With this one the time cannot be right. With these it can:')),
    h('ul.guesses', fitting.map(link)));
}

const WIDTH = 600;

// The times of the IDs, as lines from the first to the last.
function timeline(sorted, markOf) {
  const [first, last] = [sorted[0], sorted.at(-1)];
  const whole = last.unix_ms - first.unix_ms;
  if (whole === 0) return false;
  const line = (one) => {
    const x = 1 + ((one.unix_ms - first.unix_ms) / whole) * (WIDTH - 2);
    return svg('line', { x1: x, x2: x, y1: 0, y2: 10, class: markOf(one) });
  };
  const end = ({ timestamp }) => h('small.mono', timestamp);
  return [drawing('.timeline', WIDTH, 10, t('From {first} to {last}', { first: first.timestamp, last: last.timestamp }), sorted.map(line)),
    h('.row.spread', end(first), end(last))];
}

function listed(good) {
  const sorted = good.map(({ parsed }) => parsed).sort((a, b) => a.unix_ms - b.unix_ms || Number(BigInt(a.id) - BigInt(b.id)));
  const worker = (one) => `${one.data_center}-${one.worker_id}`;
  const times = new Map();
  for (const one of sorted) times.set(worker(one), (times.get(worker(one)) ?? 0) + 1);
  const shared = [...times.keys()].filter((key) => times.get(key) > 1);
  const markOf = (one) => (shared.includes(worker(one)) ? `mark-${shared.indexOf(worker(one)) % MARKS}` : '');
  const mark = (one) => {
    const title = t('{n} IDs of this worker', { n: times.get(worker(one)) });
    return h('span', markOf(one) ? { class: `mark ${markOf(one)}`, title } : {}, one.worker_id);
  };
  // Columns whose value may be the same in every row; then it is shown once.
  const columns = [
    [t('Data centre'), (one) => one.data_center], [t('Worker'), (one) => one.worker_id, mark], [t('Lane'), (one) => one.lane],
    [t('Sequence'), (one) => one.sequence], [t('Safe in JavaScript'), (one) => (one.js_safe ? t('yes') : t('no'))],
  ];
  const isConstant = ([, of]) => sorted.every((one) => of(one) === of(sorted[0]));
  const constant = columns.filter(isConstant);
  const varying = columns.filter((column) => !isConstant(column));
  const row = (one) => ({ cells: [
    h('a.mono', { href: `#inspect?ids=${one.id}` }, one.id),
    h('time', { datetime: one.timestamp, class: one.warning && 'soon', title: one.warning && told(one.warning) }, one.timestamp), relative(one.unix_ms),
    ...varying.map(([, of, shown]) => (shown ? shown(one) : of(one))),
  ] });
  const heads = ['ID', t('Time (UTC)'), t('Age'), ...varying.map(([head]) => head)];
  return card(t('{n} IDs by time', { n: number(sorted.length) }), timeline(sorted, markOf),
    constant.length > 0 && [h('h3', t('The same in all')), facts(constant.map(([head, of]) => [head, of(sorted[0])]))],
    shared.length > 0 && varying.some(([, , shown]) => shown) && muted(t('Workers with the same colour are the same worker.')),
    table(t('IDs by time'), heads, sorted.map(row)));
}

const reading = (count) => card(null, h('label.stack', t('Reading {n} IDs…', { n: number(count) }), h('progress', { max: count, value: 0 })));

export function mount(panel, { params, save }) {
  const input = h('textarea', { rows: 3, spellcheck: 'false', autocomplete: 'off', value: (params.ids ?? '').replaceAll(',', '\n') });
  const encoding = select([['auto', t('find out')], ...ENCODINGS], params.encoding ?? 'auto');
  const isDescribed = isDescription(params.layout);
  const given = isDescribed ? DESCRIBED : params.layout ? `layout=${params.layout}` : params.namespace ? `namespace=${params.namespace}` : '';
  const spaces = [...new Set([...timed.map(({ name }) => name), params.namespace])].filter(Boolean).map((name) => [`namespace=${name}`, t('namespace {name}', { name })]);
  const others = layouts.map(({ name }) => [`layout=${name}`, t('layout {name}', { name })]);
  const where = select([['', t('this service')], ...spaces, ...others, [DESCRIBED, t('a layout to describe')]], given);
  const text = (value, placeholder) => typed({ value, placeholder });
  const description = text(isDescribed ? params.layout : '', 'time:39@10ms,sequence:8,worker:16');
  const epoch = text(params.epoch ?? '', '1970-01-01T00:00:00Z');
  const describing = field(t('Fields'), description, t('From the most significant, with their widths in bits.'));
  const beginning = field(t('Epoch'), epoch, t('If it is not the usual one of the layout.'), tip('epoch'));
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
    const shared = { ids: texts.slice(0, MOST).join(','), encoding: encoding.value === 'auto' ? '' : encoding.value };
    save({ ...shared, ...by });
    if (!texts.length) return put(output, muted(t('An ID tells when and by which worker it was made. To read those of other systems, choose their layout.')));
    if (texts.length > MOST) return put(output, problem({ detail: t('{n} IDs: at most {most} at a time', { n: number(texts.length), most: number(MOST) }) }));
    const isStale = () => mine !== run;
    if (texts.length > FEW) put(output, reading(texts.length));
    const results = await each(texts, (text) => parse(text, encoding.value, by), isStale, (done) => {
      const bar = output.querySelector('progress');
      if (bar && !isStale()) bar.value = done;
    });
    if (isStale()) return;
    const good = results.filter((one) => one.parsed);
    const bad = results.map((one, index) => ({ ...one, line: index + 1 })).filter((one) => one.error);
    const why = ({ line, item, error }) => h('li', h('b', `${line}. `), h('code.wrap', item), ' ', wordsOf(error));
    put(output,
      bad.length > 0 && card(t('Not read'), h('ul.bad', bad.map(why))),
      good.length === 1 && h('section.card', h('h2.away', 'ID'), details(good[0].parsed)),
      good.length > 1 && listed(good));
    if (!good.some(({ parsed }) => parsed.warning)) return;
    const guessed = await guessLayout(good, shared, isStale);
    if (guessed && !isStale()) output.append(guessed);
  }

  const soon = debounce(300, show);
  for (const control of [input, description, epoch]) control.oninput = soon;
  for (const control of [encoding, where]) control.onchange = show;
  panel.append(h('section.card', h('h2.away', t('Inspect')),
    field(t('IDs'), input, t('Up to 1000, in lines or with commas or blanks between them.')),
    h('.controls', field(t('Encoding'), encoding), field(t('Read as'), where), describing, beginning)), output);
  show();
  return { stop: () => (run += 1), refresh: show };
}
