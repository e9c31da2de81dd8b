// Codes: plain numbers by code, how long they last, and what can be done with them.
import { getJson } from './api.js';
import { badge } from './cluster.js';
import { create, raise, retire, widen } from './change.js';
import { button, card, h, muted, problem, table } from './dom.js';
import { localTime, number, relative, short, t } from './i18n.js';
import { poll } from './poll.js';

const EVERY = 10000;
const DAY = 86400;
const YEARS = 1000 * 365.25 * DAY;

const big = (text) => new Intl.NumberFormat().format(BigInt(text));

// Few need the digits of a number as long as these.
function about(text) {
  if (text === undefined) return '–';
  if (text.length < 14) return h('span', { class: 'mono' }, big(text));
  const [digits, power] = Number(text).toExponential(1).split('e+');
  return h('span', { class: 'mono', title: big(text) }, `≈ ${digits} × 10`, h('sup', {}, power));
}

// Numbers per second since the code was made, and between the first and the last look at it.
function rates(code, seen, now) {
  const key = `${code.namespace}/${code.code}`;
  const next = BigInt(code.next);
  const per = (from, ms) => (ms > 0 ? Number(next - from) / Number(code.increment || 1) / (ms / 1000) : 0);
  if (!seen.has(key)) seen.set(key, { next, at: now });
  const first = seen.get(key);
  const whole = per(BigInt(code.start ?? code.next), now - Date.parse(code.created_at));
  return { now: now - first.at >= EVERY / 2 ? per(first.next, now - first.at) : undefined, whole };
}

function forecast(code, rate, now) {
  if (code.left === undefined) return '–';
  if (BigInt(code.left) === 0n) return t('used up');
  if (!rate) return t('not at this rate');
  const seconds = Number(code.left) / rate;
  if (seconds > YEARS) return t('in more than 1000 years');
  const ms = now + seconds * 1000;
  return h('span', { title: localTime(ms), class: seconds < 30 * DAY ? 'soon' : '' }, new Date(ms).toISOString().slice(0, 10), ' · ', relative(ms, now));
}

// With the namespace, unless there is only one.
function row(code, isOne, seen, now, again) {
  const rate = rates(code, seen, now);
  const shown = (value) => (value === undefined ? '…' : `${value < 10 ? number(value, 2) : short(value)}/s`);
  const id = `${code.namespace}-${code.code}`;
  const act = (name, text, work, danger) => button(text, () => work(code, again), { class: danger ? 'quiet danger' : 'quiet', id: `${name}-${id}`, 'aria-label': `${text}: ${code.code}` });
  const isRetired = code.kind === 'retired';
  const isFixed = !['managed', 'automatic'].includes(code.kind);
  const names = [h('b', { class: 'mono' }, code.code), ...(isOne ? [] : [code.namespace]), badge(!isRetired, t(code.kind))];
  // To retire a code reserves all that was left of it: its numbers say nothing any more.
  if (isRetired) return { cells: [...names, ...Array(6).fill('–')] };
  return { cells: [
    ...names,
    h('span', { class: 'mono' }, big(code.next)), about(code.left), code.step ? number(code.step) : '–',
    h('span', {}, shown(rate.now), h('br'), h('small', {}, t('{rate} on average', { rate: shown(rate.whole) }))),
    forecast(code, rate.whole || rate.now, now),
    h('div', { class: 'row tight' }, act('raise', t('Raise'), raise),
      !isFixed && act('widen', t('Widen'), widen), !isFixed && act('retire', t('Retire'), retire, true)),
  ] };
}

export function mount(panel) {
  const output = h('div', { class: 'stack' });
  const seen = new Map();
  const again = () => output.dispatchEvent(new Event('again'));
  panel.append(h('div', { class: 'row' }, muted(t('Nodes reserve numbers in blocks, so the next number moves in steps.')),
    button(t('New code'), () => create(again), { class: 'main' })), output);
  return poll(EVERY, async (quiet) => {
    try {
      const { codes, has_more } = await getJson('/codes', { quiet });
      const now = Date.now();
      const isOne = new Set(codes.map((code) => code.namespace)).size === 1;
      const heads = [t('Code'), ...(isOne ? [] : [t('Namespace')]), t('Kind'), t('Next'), t('Left'), t('Step'), t('Rate'), t('Runs out'), t('Actions')];
      return () => [has_more && card(null, muted(t('Only the first {n} codes are shown.', { n: number(codes.length) }))), card(null, codes.length ? table(t('Codes'), heads, codes.map((code) => row(code, isOne, seen, now, again)))
        : muted(t('There is no code yet.')))].filter(Boolean);
    } catch (error) {
      return () => [card(null, problem(error), button(t('Try again'), again))];
    }
  }, output);
}
