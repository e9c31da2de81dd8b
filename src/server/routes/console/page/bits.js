// The bits of an ID as a bar to scale, one colour for each field.
import { drawing, h, svg, swatch } from './dom.js';
import { t } from './i18n.js';

export const ALL = 64;
const CELL = 10;
const HEIGHT = 40;

export const NAMES = {
  timestamp: 'Timestamp', data_center: 'Data centre', worker_id: 'Worker', lane: 'Lane',
  sequence: 'Sequence', reserved: 'Reserved', unused: 'Unused',
};

export const sum = (values) => values.reduce((all, value) => all + value, 0);
export const inBits = (bits) => t(bits === 1 ? '{bits} bit' : '{bits} bits', { bits });

export const total = (fields) => sum(fields.map(([, bits]) => bits));
export const withUnused = (fields) => [['unused', Math.max(0, ALL - total(fields))], ...fields];

// The fields as text, for screen readers.
export const spoken = (fields) =>
  t('Bits from the most significant: {told}', { told: fields.map(([name, bits]) => `${t(NAMES[name])} ${bits}`).join(', ') });

// Each bit of an ID as a cell, filled where it is 1.
export function bar(fields, id) {
  let left = ALL;
  const cell = () => {
    left -= 1;
    return svg(`rect.${(id >> BigInt(left)) & 1n ? 'one' : 'zero'}`, { x: (ALL - 1 - left) * CELL + 0.7, y: 0, width: CELL - 1.4, height: HEIGHT, rx: 1.5 });
  };
  return drawing('.bar', ALL * CELL, HEIGHT, spoken(fields),
    withUnused(fields).map(([name, length]) => svg(`g.of-${name}`, Array.from({ length }, cell))));
}

// The legend of the colours, with the values of the fields if there are any.
export function legend(fields, values) {
  const item = ([name, bits]) => h('li', swatch(name), h('span', t(NAMES[name])), h('span.muted', inBits(bits)),
    values && h('b.mono', values[name] ?? 0));
  return h('ul.legend', fields.map(item));
}
