// Builds the elements of the pages, without a framework.
import { localTime, remaining, t, told } from './i18n.js';

const isShown = (child) => (child ?? false) !== false;

// Builds an element from `tag.class.class`, a div if there is no tag, with properties if there are
// any.
const maker = (make) => (what = '', ...children) => {
  const [tag, ...classes] = what.split('.');
  const element = make(tag || 'div');
  if (classes.length) element.setAttribute('class', classes.join(' '));
  const props = children[0]?.constructor === Object ? children.shift() : {};
  for (const [name, value] of Object.entries(props)) {
    if (!isShown(value)) continue;
    if (name.startsWith('on') || name === 'value' || name === 'checked') element[name] = value;
    else element.setAttribute(name, value === true ? '' : value);
  }
  put(element, children);
  return element;
};

export const h = maker((tag) => document.createElement(tag));
export const svg = maker((tag) => document.createElementNS('http://www.w3.org/2000/svg', tag));

// Replaces the content of an element.
export const put = (element, ...children) => element.replaceChildren(...children.flat(3).filter(isShown));

// A picture that is stretched to the available width.
export const drawing = (is, width, height, label, ...children) =>
  svg(`svg${is}`, { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': label }, children);

let last = 0;
export const uid = () => `e${(last += 1)}`;

// An input for exact text: no autocompletion, spelling or capitals.
export const typed = (props) => h('input', { autocomplete: 'off', spellcheck: 'false', autocapitalize: 'none', ...props });
export const pre = (text, label) => h('pre.mono', { tabindex: 0, role: 'group', 'aria-label': label }, text);

// A control with its label above, perhaps with a tip beside that, and perhaps a hint below.
export function field(label, control, hint, tip) {
  control.id ||= uid();
  const name = h('label', { for: control.id }, label);
  const parts = [tip ? h('.row.tight', name, tip) : name, control];
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

// Announces a text to screen readers.
export function announce(text) {
  document.querySelector('#announcer').textContent = text;
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Browsers offer no clipboard to pages over plain HTTP.
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

// The text of an error, in the server's words.
export const wordsOf = (error) => told(error.detail ?? String(error));
export const problem = (error) => h('p.problem', { role: 'alert' }, wordsOf(error));

export const badge = (isGood, text) => h(`span.badge.${isGood ? 'good' : 'bad'}`, text);

// A swatch of a field's colour. The text beside it says the same.
export const swatch = (name) => h(`span.swatch.of-${name}`);
export const meter = (...shares) => h('span.meter', { 'aria-hidden': 'true' }, shares.filter(([share]) => share > 0).map(([share, name]) => {
  const part = h(`i.of-${name}`);
  part.style.width = `${share * 100}%`;
  return part;
}));

// The time until an instant. The page's poll keeps it counting down.
export const until = (ms, ends = ms) => h('time', { 'data-until': ms, title: localTime(ends) }, remaining(ms - Date.now()));

// Builds a table. A head is a text, or what is shown with that text. With `kind` ".stacked", each row
// becomes a list on a telephone.
export function table(caption, heads, rows, kind = '') {
  const cell = (content, index) => h('td', { 'data-head': heads[index].text ?? heads[index] }, content);
  const title = (head) => h('th', { scope: 'col', 'aria-sort': head.sort }, head.shown ?? head);
  return h(`.scroll${kind}`, { tabindex: 0, role: 'region', 'aria-label': caption },
    h('table', h('thead', h('tr', heads.map(title))),
      h('tbody', rows.map(({ cells, ...props }) => h('tr', props, cells.map(cell))))));
}

// A term and its description.
export const term = (name, ...value) => h('div', h('dt', name), h('dd', value));
export const facts = (pairs) => h('dl.facts', pairs.filter(Boolean).map((pair) => term(...pair)));
