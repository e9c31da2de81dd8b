// Plan: a layout of one's own, judged by the service.
import { address, getJson } from './api.js';
import { bar, legend, NAMES } from './bits.js';
import { card, copyButton, debounce, facts, field, h, muted, pre, problem, select, typed, wordsOf } from './dom.js';
import { number, t } from './i18n.js';
import { presets } from './settings.js';

// The widths that are set, the fields of the answer that they are, and the usual ranges.
const WIDTHS = [
  ['timestamp_bits', 'timestamp', 15, 55], ['data_center_bits', 'data_center', 0, 10], ['worker_bits', 'worker_id', 3, 16],
  ['rollback_bits', 'lane', 0, 3], ['reserved_bits', 'reserved', 0, 5],
];
const UNITS = ['millisecond', '10ms', 'second', 'minute', 'hour', 'day'];
const ORDERS = ['time-worker-sequence', 'time-sequence-worker'];
const OWN = 'own';

export function mount(panel, { params, save }) {
  // Neither: the layout of this service, as long as nothing was moved.
  let mode = params.get('preset') ?? (params.size ? OWN : '');
  const preset = select([['', t('this service')], ...presets.map(({ name }) => [name]), [OWN, t('your own')]], mode);
  const unit = select(UNITS.map((name) => [name, t(name)]), params.get('time_unit') ?? 'millisecond');
  const order = select(ORDERS.map((name) => [name, t(name)]), params.get('order') ?? ORDERS[0]);
  const epoch = typed({ value: params.get('epoch') ?? '', placeholder: '2025-01-01T00:00:00Z' });
  const first = h('input', { type: 'number', min: 0, value: params.get('min_sequence') ?? '' });
  const last = h('input', { type: 'number', min: 0, value: params.get('max_sequence') ?? '' });
  const sliders = Object.fromEntries(WIDTHS.map(([key, , least, most]) => {
    const value = params.get(key) ?? String(least);
    return [key, h('input', { type: 'range', min: Math.min(least, value), max: Math.max(most, value), value })];
  }));
  const output = h('div', { class: 'stack', 'aria-live': 'polite' });
  // On a telephone the result is below the sliders: the gist of it stays in sight.
  const gist = h('p', { class: 'gist', 'aria-hidden': 'true' });
  const shown = Object.fromEntries(WIDTHS.map(([key]) => [key, h('output', { class: 'mono' }, sliders[key].value)]));
  let epochIsSet = params.has('epoch');
  let run = 0;

  function setSlider(key, bits) {
    const [, , least, most] = WIDTHS.find(([name]) => name === key);
    Object.assign(sliders[key], { min: Math.min(least, bits), max: Math.max(most, bits), value: bits });
    shown[key].textContent = bits;
  }

  function asked() {
    const base = epochIsSet ? { epoch: epoch.value.trim() } : {};
    if (mode !== OWN) return mode ? { preset: mode, ...base } : base;
    const widths = Object.fromEntries(WIDTHS.map(([key]) => [key, sliders[key].value]));
    return { time_unit: unit.value, order: order.value, ...base, ...widths, min_sequence: first.value, max_sequence: last.value };
  }

  function present(plan) {
    const widths = plan.fields.map(({ name, bits }) => [name, bits]);
    if (mode !== OWN) {
      for (const [key, name] of WIDTHS) setSlider(key, widths.find(([one]) => one === name)?.[1] ?? 0);
      unit.value = plan.time_unit;
      const names = plan.fields.map(({ name }) => name);
      order.value = ORDERS[Number(names.indexOf('sequence') < names.indexOf('worker_id'))];
      first.value = plan.min_sequence || '';
      last.value = '';
    }
    if (!epochIsSet) epoch.value = plan.epoch;
    const day = (end, none) => (end ? end.timestamp.slice(0, 10) : none);
    const rate = plan.ids_per_second;
    const perTick = t('{n} in each {unit}', { n: number(plan.ids_per_tick), unit: t(plan.time_unit) });
    gist.className = 'gist';
    gist.textContent = t('{rate}/s per node · {nodes} nodes · until {day}', { rate: number(rate.node), nodes: number(plan.nodes), day: day(plan.ends, '–') });
    output.replaceChildren(
      card(t('The bits'), bar(widths), legend(widths), muted(t('{bits} of 63 bits are used.', { bits: plan.bits }))),
      card(t('What it gives'), facts([
        [t('IDs per second and node'), number(rate.node)],
        [t('IDs per second, all nodes'), number(rate.cluster)],
        [t('IDs per tick and node'), perTick],
        [t('Nodes'), number(plan.nodes)],
        [t('Data centres'), number(plan.data_centers)],
        [t('Lanes for clock steps'), number(plan.lanes)],
        [t('Last day'), plan.wraps_after_ms ? t('none: the time wraps every {n} s', { n: number(plan.wraps_after_ms / 1000) }) : day(plan.ends, '–')],
        [t('Safe in JavaScript until'), day(plan.js_safe_until, t('always'))],
      ])),
      ...(plan.toml ? [h('section', { class: 'card' }, h('div', { class: 'row' }, h('h2', {}, t('Configuration')), copyButton(plan.toml, 'TOML')),
        pre(plan.toml, 'TOML'))] : []));
  }

  async function show() {
    const mine = (run += 1);
    const query = asked();
    save(query);
    try {
      const plan = await getJson(address('/plan', query));
      if (mine === run) present(plan);
    } catch (error) {
      // This service counts and has no layout of its own: begin with the usual one.
      if (mine === run && mode === '' && error.status === 404) {
        mode = preset.value = 'raindrop';
        show();
      } else if (mine === run) {
        gist.className = 'gist bad';
        gist.textContent = wordsOf(error);
        output.replaceChildren(h('section', { class: 'card' }, h('h2', {}, t('This cannot be')), problem(error)));
      }
    }
  }

  const soon = debounce(200, show);
  const own = () => {
    mode = preset.value = OWN;
    soon();
  };
  preset.addEventListener('change', () => {
    mode = preset.value;
    epochIsSet = false;
    show();
  });
  unit.addEventListener('change', () => {
    const least = { millisecond: 41, '10ms': 39, second: 31, minute: 25, hour: 19, day: 15 }[unit.value];
    setSlider('timestamp_bits', least);
    own();
  });
  order.addEventListener('change', own);
  epoch.addEventListener('input', () => {
    epochIsSet = epoch.value.trim() !== '';
    soon();
  });
  for (const input of [first, last]) input.addEventListener('input', own);
  const slider = ([key, name]) => {
    sliders[key].addEventListener('input', () => {
      shown[key].textContent = sliders[key].value;
      own();
    });
    const label = h('span', { class: 'row' }, h('span', {}, h('span', { class: `swatch of-${name}` }), ' ', t(NAMES[name])), shown[key]);
    return field(label, sliders[key]);
  };
  panel.append(gist, h('div', { class: 'sides' },
    h('section', { class: 'card stack' }, h('h2', {}, t('Layout')),
      field(t('Begin with'), preset), field(t('Unit of time'), unit), field(t('Order of the fields'), order), field(t('Epoch'), epoch), WIDTHS.map(slider),
      h('div', { class: 'controls' }, field(t('First sequence number'), first), field(t('Last sequence number'), last)),
      muted(t('The sequence gets the bits that are left of 63.'))),
    output));
  show();
  return { stop: () => (run += 1), refresh: show };
}
