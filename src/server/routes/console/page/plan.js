// The tab "Plan": a layout that the user composes and the service judges.
import { address, getJson } from './api.js';
import { legend, NAMES, sum, total } from './bits.js';
import { borders } from './borders.js';
import { card, copyButton, debounce, facts, field, h, muted, pre, problem, put, select, swatch, typed, wordsOf } from './dom.js';
import { number, t } from './i18n.js';
import { presets } from './settings.js';
import { tip } from './tip.js';

// The fields with adjustable widths: the parameter of each, and the widths that the service allows.
const KEYS = {
  timestamp: 'timestamp_bits', data_center: 'data_center_bits', worker_id: 'worker_bits', lane: 'rollback_bits', reserved: 'reserved_bits',
};
const FIELDS = Object.keys(KEYS);
const RANGES = { data_center: [0, 10], worker_id: [3, 16], lane: [0, 3], reserved: [0, 5] };
const TICKS = {
  millisecond: [41, 55], '10ms': [39, 55], second: [31, 55], minute: [25, 50], hour: [19, 45], day: [15, 40],
};
const BITS = 63;
const YEAR = 31556952e3;
// The orders, each with the number of fields before the sequence.
const ORDERS = { 'time-worker-sequence': 4, 'time-sequence-worker': 1 };
const OWN = 'own';

export function mount(panel, { params, save }) {
  // Empty: the layout of this service, until the user moves something.
  let mode = params.preset ?? (Object.keys(params).length ? OWN : '');
  const named = (names, value) => select(names.map((name) => [name, t(name)]), value);
  const preset = select([['', t('this service')], ...presets.map(({ name }) => name), [OWN, t('your own')]], mode);
  const unit = named(Object.keys(TICKS), params.time_unit);
  const order = named(Object.keys(ORDERS), params.order);
  const epoch = typed({ value: params.epoch ?? '', placeholder: '2025-01-01T00:00:00Z' });
  const limit = (value) => h('input', { type: 'number', min: 0, value, oninput: () => own() });
  const first = limit(params.min_sequence);
  const last = limit(params.max_sequence);
  const output = h('.stack', { 'aria-live': 'polite' });
  // On a telephone the result is below the sliders, so its summary stays in sight.
  const gist = h('p.gist', { 'aria-hidden': 'true' });
  const shown = {};
  const sliders = {};
  const drawn = h();
  const bar = borders(limits, (name, bits) => {
    setSlider(name, bits);
    own(often);
  });
  let epochIsSet = 'epoch' in params;
  let asked = 0;
  let answered = 0;

  const rangeOf = (name) => RANGES[name] ?? TICKS[unit.value];
  const bitsOf = (name) => Number(sliders[name].value);
  const left = () => BITS - sum(FIELDS.map(bitsOf));

  // A slider takes every width: the service explains which are impossible together.
  function setSlider(name, bits) {
    const [least, most] = rangeOf(name);
    Object.assign(sliders[name], { min: Math.min(least, bits), max: Math.max(most, bits), value: bits });
    shown[name].textContent = sliders[name].value;
  }

  // The limits for a border: the sequence keeps the bits for its first and last number.
  function limits(name) {
    const [least, most] = rangeOf(name);
    const kept = Math.max(1, first.value, last.value).toString(2).length;
    return [least, Math.min(most, bitsOf(name) + left() - kept)];
  }

  function draw(sequence = Math.max(0, left())) {
    const fields = FIELDS.map((name) => [name, bitsOf(name)]);
    fields.splice(ORDERS[order.value], 0, ['sequence', sequence]);
    bar.set(fields);
    put(drawn, legend(fields.filter(([, bits]) => bits > 0)), muted(t('{bits} of 63 bits are used.', { bits: total(fields) })));
  }

  function query() {
    const base = epochIsSet ? { epoch: epoch.value.trim() } : {};
    if (mode !== OWN) return mode ? { preset: mode, ...base } : base;
    const widths = Object.fromEntries(FIELDS.map((name) => [KEYS[name], sliders[name].value]));
    return { time_unit: unit.value, order: order.value, ...base, ...widths, min_sequence: first.value, max_sequence: last.value };
  }

  function present(plan) {
    if (mode !== OWN) {
      const widths = Object.fromEntries(plan.fields.map(({ name, bits }) => [name, bits]));
      const names = Object.keys(widths);
      unit.value = plan.time_unit;
      order.selectedIndex = Number(names.indexOf('sequence') < names.indexOf('worker_id'));
      first.value = plan.min_sequence || '';
      last.value = plan.max_sequence < 2 ** widths.sequence - 1 ? plan.max_sequence : '';
      for (const name of FIELDS) setSlider(name, widths[name] ?? 0);
      draw(widths.sequence);
    }
    if (!epochIsSet) epoch.value = plan.epoch;
    // Dates end with the year 9999.
    const date = (end) => (end.timestamp.startsWith('unix')
      ? t('the year {year}', { year: Math.floor(1970 + end.unix_ms / YEAR) }) : end.timestamp.slice(0, 10));
    const isPast = (end) => end?.unix_ms < Date.now();
    const day = (end, none) => (!end ? none : isPast(end) ? t('{day}, which is past', { day: date(end) }) : date(end));
    const warned = (end, none) => h('span', { class: isPast(end) && 'soon' }, day(end, none));
    const rate = plan.ids_per_second;
    const perTick = t('{n} in each {unit}', { n: number(plan.ids_per_tick), unit: t(plan.time_unit) });
    gist.className = 'gist';
    gist.textContent = t('{rate}/s per node · {nodes} nodes · until {day}', { rate: number(rate.node), nodes: number(plan.nodes), day: day(plan.ends, '–') });
    put(output,
      card(t('What it gives'), facts([
        [t('IDs per second and node'), number(rate.node)],
        [t('IDs per second, all nodes'), number(rate.cluster)],
        [t('IDs per tick and node'), perTick],
        [t('Nodes'), number(plan.nodes)],
        [t('Data centres'), number(plan.data_centers)],
        [[t('Lanes for clock steps'), tip('lane')], number(plan.lanes)],
        [t('Last day'), plan.wraps_after_ms ? t('none: the time wraps every {n} s', { n: number(plan.wraps_after_ms / 1000) }) : warned(plan.ends, '–')],
        [t('Safe in JavaScript until'), warned(plan.js_safe_until, t('always'))],
      ])),
      plan.toml && h('section.card', h('.row', h('h2', t('Configuration')), copyButton(plan.toml, 'TOML')), pre(plan.toml, 'TOML')));
  }

  // Shows a response, also while the user drags, unless a later one came first.
  async function show(isSecond) {
    if (asked === Infinity) return;
    const mine = (asked += 1);
    keep();
    try {
      const plan = await getJson(address('/plan', query()));
      if (mine > answered) {
        answered = mine;
        present(plan);
      }
    } catch (error) {
      if (mine !== asked) return;
      // This service is in segment mode and has no layout: begin with the default one.
      if (mode === '' && error.status === 404) {
        mode = preset.value = 'raindrop';
        return show();
      }
      // A 429 says nothing about the layout, so try once more.
      if (error.status === 429 && !isSecond) return setTimeout(() => mine === asked && show(true), 1000);
      answered = mine;
      gist.className = 'gist bad';
      gist.textContent = wordsOf(error);
      put(output, card(error.status === 400 && t('This cannot be'), problem(error)));
    }
  }

  const soon = debounce(200, show);
  // Requests while the user drags, and at the end, but not for each bit: services may limit them.
  let waiting;
  const often = () => (waiting ||= setTimeout(() => {
    waiting = 0;
    show();
  }, 100));
  // Browsers refuse to change the address with every bit.
  const keep = debounce(200, () => asked < Infinity && save(query()));
  function own(work = soon) {
    become(OWN);
    draw();
    work();
  }
  // A composed layout starts with the epoch of the one that it is derived from.
  function become(name) {
    if (name !== mode) epochIsSet = name === OWN && epoch.value.trim() !== '';
    mode = preset.value = name;
  }
  preset.onchange = () => {
    become(preset.value);
    show();
  };
  unit.onchange = () => {
    setSlider('timestamp', rangeOf('timestamp')[0]);
    own();
  };
  order.onchange = () => own();
  epoch.oninput = () => {
    epochIsSet = epoch.value.trim() !== '';
    soon();
  };
  const slider = (name) => {
    const bits = params[KEYS[name]] ?? rangeOf(name)[0];
    const input = h('input', { type: 'range' });
    sliders[name] = input;
    shown[name] = h('output.mono');
    setSlider(name, bits);
    input.oninput = () => {
      shown[name].textContent = input.value;
      own(often);
    };
    return field(h('span.row', h('span', swatch(name), ' ', t(NAMES[name])), shown[name]), input);
  };
  panel.append(gist, h('.sides',
    h('section.card.stack', h('h2', t('Layout')),
      field(t('Begin with'), preset), field(t('Unit of time'), unit), field(t('Order of the fields'), order), field(t('Epoch'), epoch, '', tip('epoch')), FIELDS.map(slider),
      h('.controls', field(t('First sequence number'), first), field(t('Last sequence number'), last)),
      muted(t('The sequence gets the bits that are left of 63.'))),
    h('.stack', card(t('The bits'), bar.element, drawn, muted(t('Drag the borders, or move them with the arrow keys.'))), output)));
  if (mode === OWN) draw();
  show();
  return { stop: () => (asked = answered = Infinity), refresh: () => show() };
}
