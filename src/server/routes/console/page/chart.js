// Small plots, drawn as SVG.
import { h, svg } from './dom.js';
import { number, short, t } from './i18n.js';

const WIDTH = 600;
const HEIGHT = 120;

// One column for each value; `labels` below them.
export function columns(values, label) {
  const most = Math.max(1, ...values);
  const step = WIDTH / values.length;
  const column = (value, index) => svg('rect', {
    x: index * step + step * 0.1, width: step * 0.8, class: 'one',
    y: HEIGHT - (value / most) * HEIGHT, height: (value / most) * HEIGHT,
  }, svg('title', {}, `${index}: ${number(value)}`));
  return svg('svg', {
    class: 'columns of-sequence', viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'none',
    role: 'img', 'aria-label': label,
  }, values.map(column));
}

// Counts over time, newest at the right, with room for `slots` of them.
export function sparkline(title, values, slots, everySeconds) {
  const most = Math.max(1, ...values);
  const step = WIDTH / slots;
  const left = WIDTH - values.length * step;
  const at = (value, index) => `${left + index * step},${HEIGHT - (value / most) * (HEIGHT - 4)}`;
  const points = values.flatMap((value, index) => [at(value, index), at(value, index + 1)]);
  const sum = values.reduce((all, value) => all + value, 0);
  const latest = (values.at(-1) ?? 0) / everySeconds;
  const told = t('{sum} in ten minutes', { sum: short(sum) });
  return h('figure', { class: 'spark' },
    h('figcaption', {}, h('span', {}, title),
      h('b', { class: 'mono' }, t('{rate}/s', { rate: latest < 10 ? number(latest, 1) : short(latest) }))),
    svg('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': `${title}: ${told}` },
      values.length > 0 && svg('polygon', { points: `${left},${HEIGHT} ${points.join(' ')} ${WIDTH},${HEIGHT}` }),
      values.length > 0 && svg('polyline', { points: points.join(' ') })),
    h('small', {}, told));
}
