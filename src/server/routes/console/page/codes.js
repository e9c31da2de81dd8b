// The tab "Codes": the codes of segment mode, how long their numbers last, and their operations.
import { getJson } from './api.js';
import { sum } from './bits.js';
import { create, raise, retire, widen } from './change.js';
import { badge, button, card, h, meter, muted, swatch, table } from './dom.js';
import { localTime, number, relative, short, t } from './i18n.js';
import { poll } from './poll.js';

const EVERY = 10000;
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

function forecast(code, rate, now) {
  if (code.left === undefined) return '–';
  if (BigInt(code.left) === 0n && code.in_hand === 0) return t('used up');
  if (rate === undefined) return unknown(code);
  const seconds = (Number(code.left) + code.in_hand) / rate;
  if (seconds > YEARS) return t('in more than 1000 years');
  const ms = now + seconds * 1000;
  return h('span', { title: localTime(ms), class: seconds < 30 * DAY ? 'soon' : '' }, new Date(ms).toISOString().slice(0, 10), h('br'), relative(ms, now));
}

// The used, reserved and remaining numbers of a code; with a bar, unless the code has no limit of
// its own.
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
function row(code, isOne, seen, now, again) {
  const rate = rates(code, seen, now);
  const shown = (value) => t('{rate}/s', { rate: value < 10 ? number(value, 2) : short(value) });
  const known = (value) => (value === undefined ? unknown(code) : shown(value));
  const id = `${code.namespace}-${code.code}`;
  const act = (name, text, work, danger) => button(text, () => work(code, () => {
    // Numbers that are skipped were not issued.
    seen.delete(keyOf(code));
    again();
  }), { class: danger ? 'quiet danger' : 'quiet', id: `${name}-${id}`, 'aria-label': `${text}: ${code.code}` });
  const isRetired = code.kind === 'retired';
  const isFixed = !['managed', 'automatic'].includes(code.kind);
  const names = [h('b.mono', code.code), ...(isOne ? [] : [code.namespace]), badge(!isRetired, t(code.kind))];
  // Retiring a code reserves all its remaining numbers, so the counts mean nothing any more.
  if (isRetired) return { cells: [...names, ...Array(6).fill('–')] };
  return { cells: [
    ...names,
    h('span.mono', big(code.next)), share(code), code.step ? number(code.step) : '–',
    h('span', rate.now === undefined ? '…' : shown(rate.now), h('br'), h('small', t('on average'), ' ', known(rate.whole))),
    forecast(code, rate.whole, now),
    h('.row.tight', act('raise', t('Raise'), raise),
      !isFixed && act('widen', t('Widen'), widen), !isFixed && act('retire', t('Retire'), retire, true)),
  ] };
}

export function mount(panel) {
  const output = h('.stack');
  const seen = new Map();
  const asking = poll(EVERY, async (quiet, again) => {
    const { codes, has_more } = await getJson('/codes', { quiet });
    const now = Date.now();
    const isOne = new Set(codes.map((code) => code.namespace)).size === 1;
    const heads = [t('Code'), ...(isOne ? [] : [t('Namespace')]), t('Kind'), t('Next'), t('Left'), t('Step'), t('Rate'), t('Runs out'), t('Actions')];
    return () => [has_more && card(null, muted(t('Only the first {n} codes are shown.', { n: number(codes.length) }))), card(null, codes.length ? table(t('Codes'), heads, codes.map((code) => row(code, isOne, seen, now, again)), '.stacked')
      : muted(t('There is no code yet.')))];
  }, output);
  panel.append(h('.row', muted(t('Nodes reserve numbers in blocks, so the next number moves in steps. Rates count what was issued.')),
    button(t('New code'), () => create(asking.again), { class: 'main' })), output);
  return asking;
}
