// The console: one page with a tab for each part; the address holds its state.
import { service } from './api.js';
import * as cluster from './cluster.js';
import * as codes from './codes.js';
import { h } from './dom.js';
import { t } from './i18n.js';
import * as inspect from './inspect.js';
import { build } from './page.js';
import * as plan from './plan.js';
import { settings } from './settings.js';
import * as tryIt from './try.js';

const PARTS = { try: tryIt, inspect, plan, cluster, codes };
const TITLES = { try: 'Try', inspect: 'Inspect', plan: 'Plan', cluster: 'Cluster', codes: 'Codes' };
const names = Object.keys(PARTS).filter((name) => settings.parts.includes(name));

let shown;
let running;

function read() {
  const [name, query] = location.hash.slice(1).split(/\?(.*)/s);
  return { name: names.includes(name) ? name : names[0], params: new URLSearchParams(query) };
}

function show(name, params) {
  running?.stop?.();
  shown = name;
  for (const tab of document.querySelectorAll('[role=tab]')) {
    const isShown = tab.id === `tab-${name}`;
    tab.setAttribute('aria-selected', isShown);
    tab.tabIndex = isShown ? 0 : -1;
  }
  document.title = `${t(TITLES[name])} · Raindrop`;
  const panel = document.querySelector('[role=tabpanel]');
  panel.setAttribute('aria-labelledby', `tab-${name}`);
  panel.replaceChildren();
  // Replaced, so that typing does not fill the browser's history.
  const save = (values) => {
    const given = Object.entries(values).filter(([, value]) => value !== '' && value !== undefined && value !== null);
    const query = new URLSearchParams(given).toString().replaceAll('%2C', ',');
    history.replaceState(null, '', `#${name}${query && `?${query}`}`);
  };
  running = PARTS[name].mount(panel, { params, save });
}

function choose(name) {
  if (name === shown) return;
  history.pushState(null, '', `#${name}`);
  show(name, new URLSearchParams());
}

function onkeydown(event) {
  const at = names.indexOf(shown);
  const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: names.length - 1 }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  choose(names[(to + names.length) % names.length]);
  document.querySelector(`#tab-${shown}`).focus();
}

function start() {
  const tab = (name) => h('button', {
    type: 'button', role: 'tab', id: `tab-${name}`, 'aria-controls': 'panel', onclick: () => choose(name),
  }, t(TITLES[name]));
  const tabs = h('div', { role: 'tablist', class: 'tabs', 'aria-label': t('Parts of the console'), onkeydown }, names.map(tab));
  const panel = h('div', { role: 'tabpanel', id: 'panel' });
  build(h('main', {}, h('h1', { class: 'away' }, t('Raindrop console')), tabs, panel), start);
  const { name, params } = read();
  show(name, params);
}

addEventListener('popstate', () => {
  const { name, params } = read();
  show(name, params);
});
service.addEventListener('up', () => running?.refresh?.());
start();
