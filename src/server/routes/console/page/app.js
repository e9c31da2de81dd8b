// The console: one page with a tab for each part; the address holds its state.
import { address, service } from './api.js';
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
  return [names.includes(name) ? name : names[0], Object.fromEntries(new URLSearchParams(query))];
}

function show(name, params) {
  running?.stop?.();
  shown = name;
  document.body.dataset.part = name;
  for (const tab of document.querySelectorAll('[role=tab]')) {
    const isShown = tab.id === `tab-${name}`;
    tab.setAttribute('aria-selected', isShown);
    tab.tabIndex = isShown ? 0 : -1;
  }
  document.title = `${t(TITLES[name])} · Raindrop`;
  const panel = document.querySelector('[role=tabpanel]');
  panel.setAttribute('aria-labelledby', `tab-${name}`);
  panel.replaceChildren();
  // The entry is replaced, so that typing does not fill the browser's history.
  const save = (values) => history.replaceState(null, '', `#${address(name, values).replaceAll('%2C', ',')}`);
  running = PARTS[name].mount(panel, { params, save });
}

function choose(name) {
  if (name === shown) return;
  history.pushState(null, '', `#${name}`);
  show(name, {});
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
  const tabs = h('.tabs', { role: 'tablist', 'aria-label': t('Parts of the console'), onkeydown }, names.map(tab));
  build(h('main', h('h1.away', t('Raindrop console')), tabs, h('', { role: 'tabpanel', id: 'panel' })), start);
  show(...read());
}

addEventListener('popstate', () => show(...read()));
service.addEventListener('up', () => running?.refresh?.());
start();
