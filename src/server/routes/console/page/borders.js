// The borders between the fields of a layout, moved by pointer or keys. Each border belongs to the
// field beside it that is not the sequence; the sequence gains or loses the bits.
import { ALL, inBits, NAMES, spoken, withUnused } from './bits.js';
import { h, put } from './dom.js';
import { t } from './i18n.js';

// `limits(name)` returns the fewest and the most bits that a field can have, given the others;
// `move(name, bits)` sets its bits.
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
    // If a field already exceeds its limit, a move outwards must not shrink it.
    if ((within - now) * (bits - now) > 0) move(name, within);
  }

  // `side` is 1 if the field is left of the border and grows to the right, otherwise -1.
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
        // Leave key combinations to the browser.
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

  // Draws the fields with their bits. Fields without bits are drawn, too, so that they can get
  // some.
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
