// Elements without a framework: everything on the pages is made here.
import { countdown, localTime, t, told } from './i18n.js';

const isShown = (child) => (child ?? false) !== false;

// Makes elements of `tag.class.class`, a div where there is no tag, with properties if any are given.
const maker = (make) => (what = '', ...children) => {
  const [tag, ...classes] = what.split('.');
  const element = make(tag || 'div');
  if (classes.length) element.setAttribute('class', classes.join(' '));
  const props = children[0]?.constructor === Object ? children.shift() : {};
  for (const [name, value] of Object.entries(props)) {
    if (!isShown(value)) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name === 'value' || name === 'checked') element[name] = value;
    else element.setAttribute(name, value === true ? '' : value);
  }
  put(element, children);
  return element;
};

export const h = maker((tag) => document.createElement(tag));
export const svg = maker((tag) => document.createElementNS('http://www.w3.org/2000/svg', tag));

// Replaces what an element contains.
export const put = (element, ...children) => element.replaceChildren(...children.flat(3).filter(isShown));

// A picture as wide as there is room, which distorts it.
export const drawing = (is, width, height, label, ...children) =>
  svg(`svg${is}`, { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': label }, children);

let last = 0;
export const uid = () => `e${(last += 1)}`;

// A text that is to be typed as it is, without the browser's advice.
export const typed = (props) => h('input', { autocomplete: 'off', spellcheck: 'false', autocapitalize: 'none', ...props });
export const pre = (text, label) => h('pre.mono', { tabindex: 0, role: 'group', 'aria-label': label }, text);

// A control with its label above and perhaps a hint below.
export function field(label, control, hint) {
  control.id ||= uid();
  const parts = [h('label', { for: control.id }, label), control];
  if (hint) {
    const id = uid();
    control.setAttribute('aria-describedby', id);
    parts.push(h('small', { id }, hint));
  }
  return h('.field', parts);
}

// Each option is a value, or a value and its text.
export const select = (options, value) => h('select', options.map((one) => {
  const [key, text = key] = [one].flat();
  return h('option', { value: key, selected: key === value }, text);
}));

export const button = (text, onclick, props) => h('button', { type: 'button', onclick, ...props }, text);

// Says something to people who do not see the page.
export function announce(text) {
  document.querySelector('#announcer').textContent = text;
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Pages over plain HTTP have no clipboard of their own.
    const area = h('textarea.away', { value: text });
    (document.querySelector('dialog[open]') ?? document.body).append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
  }
}

// A button that copies; `what` tells many of them apart.
export function copyButton(text, what) {
  const label = h('span', t('Copy'));
  const element = button(label, async () => {
    await copy(typeof text === 'function' ? text() : text);
    element.focus();
    label.textContent = t('Copied');
    announce(t('Copied'));
    setTimeout(() => (label.textContent = t('Copy')), 1500);
  }, { class: 'quiet', 'aria-label': what ? `${t('Copy')}: ${what}` : t('Copy') });
  return element;
}

export function debounce(wait, work) {
  let timer;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(work, wait);
  };
}

export const card = (title, ...children) =>
  h('section.card', title && h('h2', title), children);

export const muted = (...text) => h('p.muted', text);

// An error where it happened, with the server's own words.
export const wordsOf = (error) => told(error.detail ?? String(error));
export const problem = (error) => h('p.problem', { role: 'alert' }, wordsOf(error));

export const badge = (isGood, text) => h(`span.badge.${isGood ? 'good' : 'bad'}`, text);

// The colour of a field, and shares of a whole in such colours. Text beside them says the same.
export const swatch = (name) => h(`span.swatch.of-${name}`);
export const meter = (...shares) => h('span.meter', { 'aria-hidden': 'true' }, shares.filter(([share]) => share > 0).map(([share, name]) => {
  const part = h(`i.of-${name}`);
  part.style.width = `${share * 100}%`;
  return part;
}));

// What is left until an instant, counted down by whoever polls.
export const until = (ms, ends = ms) => h('time', { 'data-until': ms, title: localTime(ends) }, countdown(ms - Date.now()));

// With `kind` ".stacked", every row is a list of its own on a telephone.
export function table(caption, heads, rows, kind = '') {
  const cell = (content, index) => h('td', { 'data-head': heads[index] }, content);
  return h(`.scroll${kind}`, { tabindex: 0, role: 'region', 'aria-label': caption },
    h('table', h('thead', h('tr', heads.map((head) => h('th', { scope: 'col' }, head)))),
      h('tbody', rows.map(({ cells, ...props }) => h('tr', props, cells.map(cell))))));
}

// A term and what it is.
export const term = (name, ...value) => h('div', h('dt', name), h('dd', value));
export const facts = (pairs) => h('dl.facts', pairs.filter(Boolean).map((pair) => term(...pair)));
