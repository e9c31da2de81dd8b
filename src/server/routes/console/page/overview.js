// The first card of "Cluster": faults, the number of nodes, and the time that is left.
import { badge, facts, h, until } from './dom.js';
import { number, t, told } from './i18n.js';

export const sectionOf = (name) => `namespace-${name}`;

function goTo(event) {
  // The address of the page is its state, so a plain link would lose it.
  event.preventDefault();
  const section = document.getElementById(sectionOf(event.currentTarget.dataset.name));
  section.scrollIntoView();
  section.focus({ preventScroll: true });
}

const link = ([name, namespace]) => h('li', { 'data-key': name }, h('a.mono', { href: '#', 'data-name': name, onclick: goTo }, name), ' ',
  h('span.wrap', namespace.reason ? told(namespace.reason) : t('not issuing')));

// The time until this node has used up what it may issue without the store: of the namespace that
// comes first.
function shortest(all, ahead) {
  const ends = all.map(([name, one]) => [Date.parse(one.valid_until), name]).filter(([end]) => end).sort(([a], [b]) => a - b);
  return ends.length ? [until(ends[0][0] - ahead, ends[0][0]), all.length > 1 && h('small', ` ${ends[0][1]}`)] : '–';
}

export function overview({ namespaces }, now, ahead) {
  const all = Object.entries(namespaces);
  const trouble = all.filter(([, one]) => !one.issuing || one.reason);
  const workers = all.flatMap(([, one]) => one.workers ?? []);
  const isLive = ({ expires }) => Date.parse(expires) > now;
  const nodes = new Set(workers.filter(isLive).map(({ holder }) => holder)).size;
  const over = workers.filter((one) => !isLive(one)).length;
  const isKnown = all.some(([, one]) => one.workers);
  return h(`section.card${trouble.length ? '.trouble' : ''}`, { 'data-key': 'overview' },
    h('.row', h('h2', t('Overview')), badge(!trouble.length, trouble.length
      ? t('{n} of {all} namespaces in trouble', { n: number(trouble.length), all: number(all.length) }) : t('every namespace issues'))),
    trouble.length > 0 && h('ul.bad', trouble.map(link)),
    facts([
      [t('Nodes with a lease'), isKnown ? number(nodes) : '–'],
      [t('Leases that are over'), isKnown ? h('span', { class: over > 0 && 'soon' }, number(over)) : '–'],
      [t('This node issues without the store for'), shortest(all, ahead)],
    ]));
}
