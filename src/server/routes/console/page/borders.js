// The borders between the fields of a layout, dragged or moved by keys. Each is the edge of the field
// beside it that is not the sequence, which takes and gives the bits.
import { ALL, inBits, NAMES, spoken, withUnused } from './bits.js';
import { h, put } from './dom.js';
import { t } from './i18n.js';

// `limits(name)` tells the fewest and the most bits that a field can have beside the others, and
// `move(name, bits)` sets them.
export function borders(limits, move) {
  const element = h('.borders', { role: 'group' });
  let order;
  let widths = {};
  let blocks;
  let edges;

  function to(name, bits) {
    const [least, most] = limits(name);
    const within = Math.max(least, Math.min(most, bits));
    const now = widths[name];
    // Where less is possible than there is, more does not give less.
    if ((within - now) * (bits - now) > 0) move(name, within);
  }

  // With `side` 1 the field is on the left and grows to the right, with -1 the other way.
  function edge(name, side) {
    let start;
    const border = h(`.border.of-${name}`, {
      role: 'separator', tabindex: 0, 'aria-orientation': 'vertical', title: t('Border of {name}', { name: t(NAMES[name]) }),
      onpointerdown: ({ button, clientX, pointerId }) => {
        if (button) return;
        border.setPointerCapture(pointerId);
        // Any field may have no bits.
        const [wide, most] = Object.entries(widths).reduce((a, b) => (b[1] > a[1] ? b : a));
        start = { clientX, bits: widths[name], bit: blocks[wide].getBoundingClientRect().width / most };
      },
      onpointermove: ({ clientX, pointerId }) => {
        if (border.hasPointerCapture(pointerId)) to(name, start.bits + side * Math.round((clientX - start.clientX) / start.bit));
      },
      onkeydown: (event) => {
        const bits = { ArrowRight: widths[name] + side, ArrowLeft: widths[name] - side, Home: 0, End: ALL }[event.key];
        // With these, the browser's own.
        if (bits === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
        event.preventDefault();
        to(name, bits);
      },
    });
    return border;
  }

  function build(names) {
    const at = names.indexOf('sequence');
    blocks = {};
    edges = {};
    put(element, names.map((name, index) => {
      blocks[name] = h(`.of-${name}`);
      if (index === at || name === 'unused') return blocks[name];
      const side = Math.sign(at - index);
      edges[name] = edge(name, side);
      return side > 0 ? [blocks[name], edges[name]] : [edges[name], blocks[name]];
    }));
  }

  // Draws fields, each with its bits. All are there, so that one without bits can get some.
  function set(fields) {
    widths = Object.fromEntries(withUnused(fields));
    const names = Object.keys(widths);
    if (names.join() !== order) build(names);
    order = names.join();
    for (const name of names) blocks[name].style.flexGrow = widths[name];
    for (const [name, border] of Object.entries(edges)) {
      const now = widths[name];
      const [least, most] = limits(name);
      const values = { now, min: Math.min(least, now), max: Math.max(most, now), text: `${t(NAMES[name])}: ${inBits(now)}` };
      for (const [key, value] of Object.entries(values)) border.setAttribute(`aria-value${key}`, value);
    }
    element.setAttribute('aria-label', spoken(fields));
  }

  return { element, set };
}
