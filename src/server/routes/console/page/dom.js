// Elements without a framework: everything on the pages is made here.
import { countdown, localTime, t, told } from './i18n.js';

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name === 'value' || name === 'checked') element[name] = value;
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.flat(2).filter((child) => child !== undefined && child !== null && child !== false));
  return element;
}

export const h = (tag, props, ...children) => fill(document.createElement(tag), props, children);
export const svg = (tag, props, ...children) =>
  fill(document.createElementNS('http://www.w3.org/2000/svg', tag), props, children);

let last = 0;
export const uid = () => `e${(last += 1)}`;

// A text that is to be typed as it is, without the browser's advice.
export const typed = (props) => h('input', { autocomplete: 'off', spellcheck: 'false', autocapitalize: 'none', ...props });
export const pre = (text, label) => h('pre', { class: 'mono', tabindex: 0, role: 'group', 'aria-label': label }, text);

// A control with its label above and perhaps a hint below.
export function field(label, control, hint) {
  control.id ||= uid();
  const parts = [h('label', { for: control.id }, label), control];
  if (hint) {
    const id = uid();
    control.setAttribute('aria-describedby', id);
    parts.push(h('small', { id }, hint));
  }
  return h('div', { class: 'field' }, parts);
}

export function select(options, value, onchange) {
  const list = options.map(([key, text]) => h('option', { value: key }, text ?? key));
  return h('select', { onchange, value }, list.map((option) => ((option.selected = option.value === value), option)));
}

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
    const area = h('textarea', { class: 'away', value: text });
    (document.querySelector('dialog[open]') ?? document.body).append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
  }
}

// A button that copies; `what` tells many of them apart.
export function copyButton(text, what) {
  const label = h('span', {}, t('Copy'));
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
  return (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...args), wait);
  };
}

export const card = (title, ...children) =>
  h('section', { class: 'card' }, title && h('h2', {}, title), children);

export const muted = (...text) => h('p', { class: 'muted' }, text);

// An error where it happened, with the server's own words.
export const wordsOf = (error) => told(error.detail ?? String(error));
export const problem = (error) => h('p', { class: 'problem', role: 'alert' }, wordsOf(error));

// What is left until an instant, counted down by whoever polls.
export const until = (ms, ends = ms) => h('time', { 'data-until': ms, title: localTime(ends) }, countdown(ms - Date.now()));

// With `kind` "stacked", every row is a list of its own on a telephone.
export function table(caption, heads, rows, kind = '') {
  const cell = (content, index) => h('td', { 'data-head': heads[index] }, content);
  return h('div', { class: `scroll ${kind}`, tabindex: 0, role: 'region', 'aria-label': caption },
    h('table', {}, h('thead', {}, h('tr', {}, heads.map((head) => h('th', { scope: 'col' }, head)))),
      h('tbody', {}, rows.map(({ cells, ...props }) => h('tr', props, cells.map(cell))))));
}

export const facts = (pairs) => h('dl', { class: 'facts' },
  pairs.filter(Boolean).map(([name, value]) => h('div', {}, h('dt', {}, name), h('dd', {}, value))));
