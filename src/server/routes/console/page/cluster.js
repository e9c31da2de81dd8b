// Cluster: who holds which worker id, and what this node did in the last ten minutes.
import { change, getJson } from './api.js';
import { sparkline } from './chart.js';
import { ask } from './dialog.js';
import { announce, button, card, facts, h, muted, problem, table } from './dom.js';
import { localTime, number, relative, t } from './i18n.js';
import { poll } from './poll.js';

const EVERY = 5000;
const SLOTS = 60;

export const badge = (isGood, text) => h('span', { class: `badge ${isGood ? 'good' : 'bad'}` }, text);

async function release(namespace, worker, again) {
  const answer = await ask({
    title: t('Release worker {id}?', { id: worker.worker_id }),
    body: [
      h('p', {}, t('Its lease ends now, and another node may take it. If {holder} still runs, it uses up its range and takes another worker id: no ID is issued twice.', { holder: worker.holder })),
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

// What is left of a lease, as a bar from its renewal to its end.
function left(worker, now) {
  const ends = Date.parse(worker.expires);
  const renewed = Date.parse(worker.renewed ?? '');
  const whole = ends - (Number.isNaN(renewed) ? now : renewed);
  const share = Math.max(0, Math.min(1, (ends - now) / (whole || 1)));
  const fill = h('i', { class: share < 0.25 ? 'low' : '' });
  fill.style.width = `${share * 100}%`;
  return h('div', { class: 'left' }, h('span', { class: 'meter', 'aria-hidden': 'true' }, fill), h('small', {}, relative(ends, now)));
}

function workers(name, namespace, now, again) {
  const rows = namespace.workers.map((worker) => {
    const isThis = worker.worker_id === namespace.worker_id;
    const renewed = Date.parse(worker.renewed ?? '');
    return { class: isThis ? 'this' : '', cells: [
      h('b', { class: 'mono' }, String(worker.worker_id)), String(worker.lane),
      h('span', { class: 'mono wrap' }, worker.holder, isThis && h('em', {}, ` · ${t('this node')}`)),
      left(worker, now), Number.isNaN(renewed) ? '–' : relative(renewed, now),
      button(t('Release'), () => release(name, worker, again), { class: 'quiet', id: `release-${name}-${worker.worker_id}`, 'aria-label': t('Release worker {id}', { id: worker.worker_id }) }),
    ] };
  });
  const heads = [t('Worker'), t('Lane'), t('Holder'), t('Lease ends'), t('Renewed'), t('Action')];
  return table(t('Workers of {name}', { name }), heads, rows);
}

// Plain numbers wait for no tick and read no clock.
function plots(series, everySeconds, isCounting) {
  const one = ([key, title]) => sparkline(title, series?.[key] ?? [], SLOTS, everySeconds);
  const all = isCounting ? [['issued', t('IDs issued')]] : [['issued', t('IDs issued')], ['waited', t('Requests that waited')], ['refused', t('Requests refused')], ['rollbacks', t('Clock steps back')]];
  return h('div', { class: 'plots' }, all.map(one));
}

function section([name, namespace], cluster, now, again) {
  const { history } = cluster;
  const isCounting = namespace.mode === 'segment';
  const state = badge(namespace.issuing, namespace.issuing ? t('issuing') : t('not issuing'));
  return h('section', { class: 'card' },
    h('div', { class: 'row' }, h('h2', { class: 'mono' }, name), state),
    namespace.reason && h('p', { class: 'problem' }, namespace.reason),
    facts(isCounting ? [[t('Mode'), t('plain numbers')], [t('Codes'), number(namespace.codes)], [t('Numbers in hand'), number(namespace.remaining)]] : [
      [t('Worker of this node'), String(namespace.worker_id ?? '–')],
      [t('Lane'), String(namespace.lane ?? '–')],
      [t('Issues without the store until'), namespace.valid_until ? h('time', { datetime: namespace.valid_until, title: localTime(Date.parse(namespace.valid_until)) }, relative(Date.parse(namespace.valid_until), now)) : '–'],
    ]),
    history && [h('h3', {}, t('This node, last ten minutes')), plots(history.namespaces[name], history.every_seconds, isCounting)],
    namespace.workers && [h('h3', {}, t('Who holds which worker')), workers(name, namespace, now, again)]);
}

export function mount(panel) {
  const output = h('div', { class: 'stack' });
  panel.append(output);
  return poll(EVERY, async (quiet) => {
    try {
      const cluster = await getJson('/cluster', { quiet });
      const now = cluster.now ? Date.parse(cluster.now) : Date.now();
      return () => {
        const parts = Object.entries(cluster.namespaces).map((one) => section(one, cluster, now, again));
        if (cluster.store_verified === false) parts.unshift(card(null, muted(t('The store is not verified: whoever controls the network can pose as it.'))));
        return parts;
      };
    } catch (error) {
      return () => [card(null, problem(error), button(t('Try again'), () => again()))];
    }
  }, output);

  function again() {
    output.dispatchEvent(new Event('again'));
  }
}
