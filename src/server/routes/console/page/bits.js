// The bits of an ID as a bar to scale, one colour for each field.
import { h, svg } from './dom.js';
import { t } from './i18n.js';

const ALL = 64;
const CELL = 10;
const HEIGHT = 40;

export const NAMES = {
  timestamp: 'Timestamp', data_center: 'Data centre', worker_id: 'Worker', lane: 'Lane',
  sequence: 'Sequence', reserved: 'Reserved', unused: 'Unused',
};

function withUnused(fields) {
  const used = fields.reduce((sum, [, bits]) => sum + bits, 0);
  return [['unused', ALL - used], ...fields];
}

// With an ID each bit is a cell, filled where the bit is 1; without one each field is a block.
export function bar(fields, id) {
  let bit = ALL;
  const parts = withUnused(fields).map(([name, bits]) => {
    const left = (ALL - bit) * CELL;
    bit -= bits;
    const block = (x, width, is) => svg('rect', { x: x + 0.7, y: 0, width: width - 1.4, height: HEIGHT, rx: 1.5, class: is });
    if (id === undefined) return svg('g', { class: `of-${name}` }, block(left, bits * CELL, 'one'));
    const cells = Array.from({ length: bits }, (_, index) => {
      const isOne = (id >> BigInt(bit + bits - 1 - index)) & 1n;
      return block(left + index * CELL, CELL, isOne ? 'one' : 'zero');
    });
    return svg('g', { class: `of-${name}` }, cells);
  });
  const told = fields.map(([name, bits]) => `${t(NAMES[name])} ${bits}`).join(', ');
  return svg('svg', {
    class: 'bar', viewBox: `0 0 ${ALL * CELL} ${HEIGHT}`, preserveAspectRatio: 'none', role: 'img',
    'aria-label': t('Bits from the most significant: {told}', { told }),
  }, parts);
}

// What the colours mean; with values where there are some.
export function legend(fields, values) {
  const item = ([name, bits]) => h('li', {},
    h('span', { class: `swatch of-${name}` }), h('span', {}, t(NAMES[name])),
    h('span', { class: 'muted' }, t(bits === 1 ? '{bits} bit' : '{bits} bits', { bits })),
    values && h('b', { class: 'mono' }, String(values[name] ?? 0)));
  return h('ul', { class: 'legend' }, fields.map(item));
}
