// The tab "Cluster": who holds which worker id, and what this node did in the last ten minutes.
import { change, getJson } from './api.js';
import { sum } from './bits.js';
import { grid, sparkline } from './chart.js';
import { ask } from './dialog.js';
import { announce, badge, button, card, facts, h, meter, muted, swatch, table, until } from './dom.js';
import { countdown, number, relative, t, told } from './i18n.js';
import { list } from './list.js';
import { overview, sectionOf } from './overview.js';
import { poll } from './poll.js';
import { tip } from './tip.js';

const EVERY = 5000;
const SLOTS = 60;
const MOST_CELLS = 512;
// The states this node, held, lease over and free, in the colours of these fields.
const KINDS = ['timestamp', 'worker_id', 'lane', 'unused'];

async function release(namespace, worker, again) {
  const answer = await ask({
    title: t('Release worker {id}?', { id: worker.worker_id }),
    body: [
      h('p', t('Its lease ends now, and another node may take it. If {holder} still runs, it uses up its range and takes another worker id: no ID is issued twice.', { holder: worker.holder })),
      muted(t('For a machine that is gone for good.')),
    ],
    action: t('Release'),
    danger: true,
    submit: () => change('POST', '/cluster/release', { namespace, worker_id: worker.worker_id }),
  });
  if (!answer) return;
  announce(answer.released ? t('Released') : t('It was free already'));
  again();
}

// The remaining time of a lease, as a bar from its renewal to its end.
function left(worker, now, ahead) {
  const ends = Date.parse(worker.expires);
  const whole = ends - (Date.parse(worker.renewed) || now);
  const share = Math.max(0, Math.min(1, (ends - now) / (whole || 1)));
  return h('.left', meter([share, share < 0.25 ? 'lane' : 'worker_id']), h('small', ends > now ? until(ends - ahead, ends) : t('over')));
}

// A cell for each worker id of the layout, or for several if there is no room for all.
function map(name, { layout, workers: rows, worker_id }, now) {
  const all = 2 ** Number(layout.match(/\bworker=(\d+)/)?.[1] ?? 0);
  // While a namespace moves to another layout, its nodes have ids of both.
  const workers = rows.filter((one) => one.worker_id < all);
  const size = Math.max(1, all / MOST_CELLS);
  const names = [t('this node'), t('held'), t('lease over'), t('free')];
  const kinds = workers.map((one) => (one.worker_id === worker_id ? 0 : Date.parse(one.expires) > now ? 1 : 2));
  const counts = [0, 1, 2].map((kind) => kinds.filter((one) => one === kind).length);
  counts.push(all - workers.length);
  const cells = Array.from({ length: all / size }, (_, index) => [3, size === 1 ? String(index) : `${index * size}–${(index + 1) * size - 1}`]);
  workers.forEach((one, index) => {
    const cell = cells[Math.floor(one.worker_id / size)];
    cell[0] = Math.min(cell[0], kinds[index]);
    cell[1] += `${size === 1 ? '' : `\n${one.worker_id}`}: ${one.holder}`;
  });
  const item = (text, kind) => h('li', swatch(KINDS[kind]), text, h('b.mono', number(counts[kind])));
  return h('.map',
    grid(cells.map(([kind, title]) => [`one of-${KINDS[kind]}`, title]), t('Worker ids of {name}: {n} of {all} are held', { name, n: number(counts[0] + counts[1]), all: number(all) })),
    h('ul.legend', names.map(item)),
    size > 1 && muted(t('Each cell is {n} worker ids.', { n: number(size) })));
}

function workers(name, namespace, { now, ahead, again, draw }) {
  const isThis = (worker) => worker.worker_id === namespace.worker_id;
  const row = (worker) => {
    const renewed = Date.parse(worker.renewed);
    return { class: isThis(worker) ? 'this' : '', 'data-key': `worker-${worker.worker_id}`, cells: [
      h('b.mono', worker.worker_id), worker.lane,
      h('span.mono.wrap', worker.holder, isThis(worker) && h('em', ` · ${t('this node')}`)),
      left(worker, now, ahead), renewed ? relative(renewed, now) : '–',
      button(t('Release'), () => release(name, worker, again), { class: 'quiet', id: `release-${name}-${worker.worker_id}`, 'aria-label': t('Release worker {id}', { id: worker.worker_id }) }),
    ] };
  };
  const state = (worker) => t(Date.parse(worker.expires) > now ? 'held' : 'lease over');
  const columns = [
    { head: t('Worker'), by: (one) => one.worker_id }, { head: t('Lane'), by: (one) => one.lane, tip: 'lane' }, { head: t('Holder'), by: (one) => one.holder },
    { head: t('Lease ends'), by: (one) => one.expires }, { head: t('Renewed'), by: (one) => one.renewed }, { head: t('Action') },
  ];
  const text = (one) => `${one.worker_id} ${one.holder} ${state(one)} ${isThis(one) ? t('this node') : ''}`;
  return h('.beside', map(name, namespace, now), h('div', list(`workers-${name}`, t('Workers of {name}', { name }), columns, namespace.workers, { text, row, draw })));
}

// Segment namespaces neither wait for ticks nor read a clock. A count that is 0 is only named.
function plots(series = {}, everySeconds, isCounting) {
  const all = [['issued', t('IDs issued')], ['waited', t('Requests that waited')], ['refused', t('Requests refused')], ['rollbacks', t('Clock steps back')]].slice(0, isCounting ? 1 : 4);
  const [none, some] = [false, true].map((has) => all.filter(([key]) => (sum(series[key] ?? []) > 0) === has));
  const small = some.filter(([key]) => key !== 'issued').map(([key, title]) => sparkline(title, series[key], SLOTS, everySeconds));
  return [
    some.length > small.length && sparkline(t('IDs issued'), series.issued, SLOTS, everySeconds, true),
    small.length > 0 && h('.plots', small),
    none.length > 0 && muted(t('None in ten minutes: {what}', { what: none.map(([, title]) => title).join(' · ') })),
  ];
}

const lasts = (namespace, ahead) => {
  const ends = Date.parse(namespace.valid_until);
  return ends ? until(ends - ahead, ends) : '–';
};

// The state that this node has in memory, while the store does not answer.
function storeAway({ store_error, namespaces, history }, ahead) {
  const all = Object.entries(namespaces);
  const row = ([name, namespace]) => {
    const count = (key) => number(sum(history.namespaces[name]?.[key] ?? []));
    const isCounting = namespace.mode === 'segment';
    return { cells: [h('b.mono', name), !namespace.issuing ? badge(false, t('not issuing'))
      : isCounting ? t('{n} numbers in hand', { n: number(namespace.remaining) }) : h('b.count', lasts(namespace, ahead)),
    count('issued'), count('refused')] };
  };
  return h('section.card.alarm', { 'data-key': 'store' }, h('h2', t('The store does not answer')), h('p.problem', told(store_error)),
    table(t('This node without the store'), [t('Namespace'), t('Issues without the store for'), t('Issued in ten minutes'), t('Refused in ten minutes')], all.map(row), '.stacked'),
    h('p', all.some(([, one]) => one.issuing) ? t('Until then this node issues from memory.') : t('This node issues again as soon as the store answers.'), ' ',
      t('Bring the store back: every node then renews its leases by itself, and nothing needs a restart.')));
}

// Who holds which worker; while the store is away, who held it when the store answered last.
function holders(name, namespace, { store_error, workers_age_seconds }, known, view) {
  const age = 1000 * (workers_age_seconds ?? 0);
  if (namespace.workers) known.set(name, { workers: namespace.workers, at: view.read - age });
  if (!known.has(name)) return muted(t('Unknown until the store answers.'));
  const { workers: rows, at } = known.get(name);
  return [store_error && h('p.soon', t('As the store had it {age} ago.', { age: countdown(Date.now() - at) })),
    workers(name, { ...namespace, workers: rows }, view)];
}

function section([name, namespace], cluster, known, view) {
  const { history } = cluster;
  const isCounting = namespace.mode === 'segment';
  const state = badge(namespace.issuing, namespace.issuing ? t('issuing') : t('not issuing'));
  return h('section.card', { id: sectionOf(name), tabindex: -1 },
    h('.row', h('h2.mono', name), state),
    namespace.reason && h('p.problem', told(namespace.reason)),
    facts(isCounting ? [[t('Mode'), t('plain numbers')], [t('Codes'), number(namespace.codes)], [[t('Numbers in hand'), tip('in hand')], number(namespace.remaining)]] : [
      [t('Worker of this node'), namespace.worker_id ?? '–'],
      [[t('Lane'), tip('lane')], namespace.lane ?? '–'],
      [t('Issues without the store for'), lasts(namespace, view.ahead)],
    ]),
    history && [h('h3', t('This node, last ten minutes')), plots(history.namespaces[name], history.every_seconds, isCounting)],
    namespace.layout && [h('h3', t('Who holds which worker')), holders(name, namespace, cluster, known, view)]);
}

export function mount(panel) {
  const output = h();
  // The store's last answer about each namespace.
  const known = new Map();
  let isAway = false;
  panel.append(output);
  const polling = poll(() => EVERY, async (quiet, again) => {
    const cluster = await getJson('/cluster', { quiet });
    const read = Date.now();
    const ahead = Date.parse(cluster.now) - read;
    if (isAway !== Boolean(cluster.store_error)) announce(isAway ? t('The store answers again') : t('The store does not answer'));
    isAway = Boolean(cluster.store_error);
    return () => {
      const now = Date.now() + ahead;
      const view = { now, read, ahead, again, draw: polling.draw };
      return [
        overview(cluster, now, ahead), isAway && storeAway(cluster, ahead),
        cluster.store_verified === false && card(null, muted(t('The store is not verified: another server on the network can pose as it.'))),
        Object.entries(cluster.namespaces).map((one) => section(one, cluster, known, view)),
      ];
    };
  }, output);
  return polling;
}
