// Small plots, drawn as SVG.
import { sum } from './bits.js';
import { drawing, h, svg } from './dom.js';
import { number, relative, short, t } from './i18n.js';

const WIDTH = 600;
const HEIGHT = 120;

// Draws a column for each value.
export function columns(values, label) {
  const most = Math.max(1, ...values);
  const step = WIDTH / values.length;
  const column = (value, index) => svg('rect.one', {
    x: index * step + step * 0.1, width: step * 0.8,
    y: HEIGHT - (value / most) * HEIGHT, height: (value / most) * HEIGHT,
  }, svg('title', `${index}: ${number(value)}`));
  return drawing('.columns.of-sequence', WIDTH, HEIGHT, label, values.map(column));
}

// The next larger of 1, 2 and 5 times a power of ten.
function round(most) {
  const power = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 5, 10].find((times) => times * power >= most) * power;
}

const perSecond = (rate) => t('{rate}/s', { rate: rate < 10 ? number(rate, 1) : short(rate) });

// Draws counts over time, the newest at the right, with room for `slots` of them. A large one has
// axes.
export function sparkline(title, values, slots, everySeconds, isLarge) {
  const top = Math.max(1, ...values) / everySeconds;
  const most = isLarge ? round(top) : top;
  const step = WIDTH / slots;
  const left = WIDTH - values.length * step;
  const at = (value, index) => `${left + index * step},${HEIGHT - (value / everySeconds / most) * (HEIGHT - 4)}`;
  const points = values.flatMap((value, index) => [at(value, index), at(value, index + 1)]);
  const told = t('{sum} in ten minutes', { sum: short(sum(values)) });
  const grid = (share) => svg('line', { x1: 0, x2: WIDTH, y1: HEIGHT - share * (HEIGHT - 4), y2: HEIGHT - share * (HEIGHT - 4) });
  const plot = drawing('', WIDTH, HEIGHT, `${title}: ${told}`, isLarge && [0.5, 1].map(grid),
    svg('polygon', { points: `${left},${HEIGHT} ${points.join(' ')} ${WIDTH},${HEIGHT}` }),
    svg('polyline', { points: points.join(' ') }));
  const minutes = (slots * everySeconds) / 60;
  const ago = (of) => h('small', relative(-of * 6e4, 0));
  return h(`figure.spark${isLarge ? '.large' : ''}`,
    h('figcaption', h('span', title), h('b.mono', perSecond((values.at(-1) ?? 0) / everySeconds))),
    isLarge ? h('.axes',
      h('div', [most, most / 2, 0].map((rate) => h('small.mono', perSecond(rate)))), plot,
      h('div', [minutes, minutes / 2, 0].map(ago))) : plot,
    h('small', told));
}

const COLUMNS = 32;
const CELL = 10;

// A grid of cells, each with a class and a title.
export function grid(cells, label) {
  const height = Math.ceil(cells.length / COLUMNS) * CELL;
  const cell = ([is, title], index) => svg('rect', {
    x: (index % COLUMNS) * CELL + 0.75, y: Math.floor(index / COLUMNS) * CELL + 0.75,
    width: CELL - 1.5, height: CELL - 1.5, rx: 1.5, class: is,
  }, svg('title', title));
  return svg('svg.cells', { viewBox: `0 0 ${COLUMNS * CELL} ${height}`, role: 'img', 'aria-label': label }, cells.map(cell));
}
