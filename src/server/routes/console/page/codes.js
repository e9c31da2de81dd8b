// Codes: plain numbers by code, how long they last, and what can be done with them.
import { getJson } from './api.js';
import { badge } from './cluster.js';
import { create, raise, retire, widen } from './change.js';
import { button, card, h, muted, table } from './dom.js';
import { localTime, number, relative, short, t } from './i18n.js';
import { poll } from './poll.js';

const EVERY = 10000;
const DAY = 86400;
const DIGITS = 13;
// What must be issued, in blocks, and how old a code must be before its average says anything.
const BLOCKS = 3;
const YOUNG = 60000;
const YEARS = 1000 * 365.25 * DAY;

const big = (text) => new Intl.NumberFormat().format(BigInt(text));

// Few need the digits of a number as long as these.
function about(text) {
  if (text === undefined) return '–';
  if (text.length <= DIGITS) return h('span', { class: 'mono' }, big(text));
  const [digits, power] = Number(text).toExponential(1).split('e+');
  return h('span', { class: 'mono', title: big(text) }, `≈ ${digits} × 10`, h('sup', {}, power));
}

// How many numbers programs got: not those that this node only reserved. Nobody knows how many other
// nodes have in hand.
function issuedOf(code) {
  if (code.start === undefined) return undefined;
  const issued = (BigInt(code.next) - BigInt(code.start)) / BigInt(code.increment) - BigInt(code.in_hand);
  return issued > 0n ? issued : 0n;
}

const keyOf = (code) => `${code.namespace}/${code.code}`;

// Numbers per second between the first and the last look at a code, and since it was made. The
// latter is known when blocks in hand no longer count for much.
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
  return h('span', { title: localTime(ms), class: seconds < 30 * DAY ? 'soon' : '' }, new Date(ms).toISOString().slice(0, 10), ' · ', relative(ms, now));
}

// What is left of a code, as a bar where one can see anything on it.
function share(code) {
  const issued = issuedOf(code);
  if (code.left === undefined || issued === undefined || code.left.length > DIGITS) return about(code.left);
  const counts = [issued, code.in_hand, code.left].map(Number);
  const told = t('{used} used, {hand} in hand', { used: number(counts[0]), hand: number(counts[1]) });
  const part = (is, count) => {
    const fill = h('i', { class: is });
    fill.style.width = `${(count / (counts[0] + counts[1] + counts[2] || 1)) * 100}%`;
    return fill;
  };
  return h('div', { class: 'left' }, about(code.left),
    h('span', { class: 'meter', 'aria-hidden': 'true' }, part('', counts[0]), part('low', counts[1])), h('small', {}, told));
}

// With the namespace, unless there is only one.
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
  const names = [h('b', { class: 'mono' }, code.code), ...(isOne ? [] : [code.namespace]), badge(!isRetired, t(code.kind))];
  // To retire a code reserves all that was left of it: its numbers say nothing any more.
  if (isRetired) return { cells: [...names, ...Array(6).fill('–')] };
  return { cells: [
    ...names,
    h('span', { class: 'mono' }, big(code.next)), share(code), code.step ? number(code.step) : '–',
    h('span', {}, rate.now === undefined ? '…' : shown(rate.now), h('br'), h('small', {}, t('on average'), ' ', known(rate.whole))),
    forecast(code, rate.whole, now),
    h('div', { class: 'row tight' }, act('raise', t('Raise'), raise),
      !isFixed && act('widen', t('Widen'), widen), !isFixed && act('retire', t('Retire'), retire, true)),
  ] };
}

export function mount(panel) {
  const output = h('div', { class: 'stack' });
  const seen = new Map();
  const again = () => output.dispatchEvent(new Event('again'));
  panel.append(h('div', { class: 'row' }, muted(t('Nodes reserve numbers in blocks, so the next number moves in steps. Rates count what was issued.')),
    button(t('New code'), () => create(again), { class: 'main' })), output);
  return poll(EVERY, async (quiet) => {
    const { codes, has_more } = await getJson('/codes', { quiet });
    const now = Date.now();
    const isOne = new Set(codes.map((code) => code.namespace)).size === 1;
    const heads = [t('Code'), ...(isOne ? [] : [t('Namespace')]), t('Kind'), t('Next'), t('Left'), t('Step'), t('Rate'), t('Runs out'), t('Actions')];
    return () => [has_more && card(null, muted(t('Only the first {n} codes are shown.', { n: number(codes.length) }))), card(null, codes.length ? table(t('Codes'), heads, codes.map((code) => row(code, isOne, seen, now, again)), 'stacked')
      : muted(t('There is no code yet.')))].filter(Boolean);
  }, output);
}
