// The tab "Codes": the codes of segment mode, how long their numbers last, and their operations.
import { address, getJson } from './api.js';
import { sum } from './bits.js';
import { create, raise, retire, widen } from './change.js';
import { badge, button, card, h, meter, muted, put, swatch } from './dom.js';
import { localTime, number, relative, short, t } from './i18n.js';
import { list } from './list.js';
import { poll } from './poll.js';

const EVERY = 10000;
// The service lists 1000 codes in an answer.
const MOST_PAGES = 10;
const DAY = 86400;
const DIGITS = 13;
// An average counts only after this many blocks were issued, and at this age of the code.
const BLOCKS = 3;
const YOUNG = 60000;
const YEARS = 1000 * 365.25 * DAY;
// The largest number of a code without a configured one.
const ENDLESS = '9223372036854775806';

const big = (text) => number(BigInt(text));

// Abbreviates a number with many digits.
function about(text) {
  if (text === undefined) return '–';
  if (text.length <= DIGITS) return h('span.mono', big(text));
  const [digits, power] = Number(text).toExponential(1).split('e+');
  return h('span.mono', { title: big(text) }, `≈ ${digits} × 10`, h('sup', power));
}

// The numbers that programs got. Numbers that this node only reserved do not count; how many other
// nodes have reserved is unknown here.
function issuedOf(code) {
  if (code.start === undefined) return undefined;
  const issued = (BigInt(code.next) - BigInt(code.start)) / BigInt(code.increment) - BigInt(code.in_hand);
  return issued > 0n ? issued : 0n;
}

const keyOf = (code) => `${code.namespace}/${code.code}`;

// Numbers per second: between the first and the last poll of a code, and since its creation. The
// latter counts once the reserved blocks are small beside it.
function rates(code, seen, now) {
  const issued = issuedOf(code);
  if (issued === undefined) return {};
  const key = keyOf(code);
  if (!seen.has(key)) seen.set(key, { issued, at: now });
  const first = seen.get(key);
  const per = (from, ms) => Number(issued - from) / (ms / 1000);
  const age = now - Date.parse(code.created_at);
  return {
    now: now - first.at >= EVERY / 2 ? Math.max(0, per(first.issued, now - first.at)) : undefined,
    whole: code.step && issued >= BigInt(BLOCKS * code.step) && age >= YOUNG ? per(0n, age) : undefined,
  };
}

const unknown = (code) => h('span', { title: t('Known after {n} numbers and a minute: until then, reserved numbers would count, too.', { n: number(BLOCKS * (code.step || code.min_step || 1)) }) }, '…');

// The seconds until the numbers of a code are used up, where they are known.
function secondsLeft(code, rate) {
  if (code.left === undefined || code.kind === 'retired') return undefined;
  if (BigInt(code.left) === 0n && code.in_hand === 0) return 0;
  return rate === undefined ? undefined : (Number(code.left) + code.in_hand) / rate;
}

function forecast(code, rate, now) {
  if (code.left === undefined) return '–';
  const seconds = secondsLeft(code, rate);
  if (seconds === 0) return t('used up');
  if (seconds === undefined) return unknown(code);
  if (seconds > YEARS) return t('in more than 1000 years');
  const ms = now + seconds * 1000;
  return h('span', { title: localTime(ms), class: seconds < 30 * DAY ? 'soon' : '' }, new Date(ms).toISOString().slice(0, 10), h('br'), relative(ms, now));
}

// The used, reserved and remaining numbers of a code; with a bar if the code has a limit.
function share(code) {
  const issued = issuedOf(code);
  if (issued === undefined || code.left === undefined) return about(code.left);
  const parts = [['worker_id', t('Used'), issued], ['lane', t('In hand'), code.in_hand], ['unused', t('Left'), code.left]];
  const whole = sum(parts.map(([, , count]) => Number(count)));
  const [used, hand, left] = parts.map(([name, text, count]) => h('span', swatch(name), ' ', text, ' ', about(String(count))));
  return h('.left', left, code.max === ENDLESS ? h('small', t('no end below 2^63'))
    : meter(...parts.map(([name, , count]) => [Number(count) / whole, name])), h('small', used, hand));
}

// The row of a code, with its namespace unless there is only one.
function row({ code, rate }, isOne, now, act) {
  const shown = (value) => t('{rate}/s', { rate: value < 10 ? number(value, 2) : short(value) });
  const known = (value) => (value === undefined ? unknown(code) : shown(value));
  const id = `${code.namespace}-${code.code}`;
  const does = (name, text, work, danger) => button(text, () => act(work, code), {
    class: danger ? 'quiet danger' : 'quiet', id: `${name}-${id}`, 'aria-label': `${text}: ${code.code}`,
  });
  const isRetired = code.kind === 'retired';
  const isFixed = !['managed', 'automatic'].includes(code.kind);
  const names = [h('b.mono.name', code.code), ...(isOne ? [] : [code.namespace]), badge(!isRetired, t(code.kind))];
  // Retiring a code reserves all its remaining numbers, so the counts mean nothing any more.
  if (isRetired) return { 'data-key': id, cells: [...names, ...Array(6).fill('–')] };
  return { 'data-key': id, cells: [
    ...names,
    h('span.mono', big(code.next), code.next_text && h('small', code.next_text)), share(code), code.step ? number(code.step) : '–',
    h('span', rate.now === undefined ? '…' : shown(rate.now), h('br'), h('small', t('on average'), ' ', known(rate.whole))),
    forecast(code, rate.whole, now),
    h('.row.tight', does('raise', t('Raise'), raise),
      !isFixed && does('widen', t('Widen'), widen), !isFixed && does('retire', t('Retire'), retire, true)),
  ] };
}

// Reads the codes behind `from`, in as many requests as they take, up to a bound.
async function read(from, quiet, tell) {
  const codes = [];
  for (let page = 1; ; page += 1) {
    const answer = await getJson(address('/codes', { after: codes.at(-1)?.code ?? from }), { quiet });
    codes.push(...answer.codes);
    if (!answer.has_more || page === MOST_PAGES) return { codes, pages: page, hasMore: answer.has_more };
    tell(codes.length);
  }
}

const numberOf = (text) => (text === undefined ? undefined : BigInt(text));

function columns(isOne) {
  return [
    { head: t('Code'), by: ({ code }) => code.code }, ...(isOne ? [] : [{ head: t('Namespace'), by: ({ code }) => code.namespace }]),
    { head: t('Kind'), by: ({ code }) => code.kind }, { head: t('Next'), by: ({ code }) => numberOf(code.next) },
    { head: t('Left'), by: ({ code }) => numberOf(code.left), tip: 'in hand' }, { head: t('Step'), by: ({ code }) => code.step, tip: 'step' },
    { head: t('Rate'), by: ({ rate }) => rate.whole }, { head: t('Runs out'), by: ({ code, rate }) => secondsLeft(code, rate.whole) }, { head: t('Actions') },
  ];
}

export function mount(panel) {
  const output = h();
  const progress = muted();
  const seen = new Map();
  // The code behind which the list begins, and how many requests it takes.
  let from = '';
  let pages = 1;
  const begin = (code) => {
    from = code;
    polling.again();
  };
  // Numbers that are skipped were not issued.
  const act = (work, code) => work(code, () => {
    seen.delete(keyOf(code));
    polling.again();
  });
  const polling = poll(() => EVERY * pages, async (quiet) => {
    const answer = await read(from, quiet, (n) => (progress.textContent = t('{n} codes read…', { n: number(n) }))).finally(() => put(progress));
    pages = answer.pages;
    const now = Date.now();
    const items = answer.codes.map((code) => ({ code, rate: rates(code, seen, now) }));
    const isOne = new Set(answer.codes.map((code) => code.namespace)).size === 1;
    const text = ({ code }) => `${code.code} ${code.namespace} ${t(code.kind)}`;
    const last = answer.codes.at(-1)?.code;
    return () => [
      (from || answer.hasMore) && card(null, h('.row', h('span', from ? t('{n} codes behind {code}', { n: number(items.length), code: from }) : t('The first {n} codes', { n: number(items.length) })),
        h('.row.tight', from && button(t('From the first'), () => begin('')), answer.hasMore && button(t('The codes behind {code}', { code: last }), () => begin(last))))),
      card(null, items.length ? list('codes', t('Codes'), columns(isOne), items, { text, row: (item) => row(item, isOne, now, act), draw: polling.draw })
        : muted(t('There is no code yet.'))),
    ];
  }, output);
  panel.append(h('.row', muted(t('Nodes reserve numbers in blocks, so the next number moves in steps. Rates count what was issued.')),
    button(t('New code'), () => create(polling.again), { class: 'main' })), progress, output);
  return polling;
}
