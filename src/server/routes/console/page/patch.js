// Changes a part of the page in place, so that what is the same stays: a selected text, the focus,
// how far a table is scrolled.
const HANDLERS = ['onclick', 'oninput'];
const keyOf = (node) => node.id || node.dataset?.key;
const isAlike = (old, next) => old?.nodeName === next.nodeName && keyOf(old) === keyOf(next);

function update(old, next) {
  if (next.nodeType === Node.TEXT_NODE) {
    if (old.data !== next.data) old.data = next.data;
    return;
  }
  for (const { name } of [...old.attributes]) if (!next.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of next.attributes) {
    if (old.getAttribute(name) === value) continue;
    // The page's policy forbids the attribute, and permits the property.
    if (name === 'style') old.style.cssText = value;
    else old.setAttribute(name, value);
  }
  for (const name of HANDLERS) old[name] = next[name];
  if (next.nodeName === 'INPUT' && old !== document.activeElement) old.value = next.value;
  patch(old, [...next.childNodes]);
}

// Makes the children of an element like these nodes. Those with an id or `data-key` are found again
// when others come, go or move.
export function patch(parent, nodes) {
  const wanted = new Set(nodes.map(keyOf));
  for (const one of [...parent.children]) if (keyOf(one) && !wanted.has(keyOf(one))) one.remove();
  const keyed = new Map([...parent.children].map((one) => [keyOf(one), one]));
  let at = parent.firstChild;
  for (const next of nodes) {
    const old = keyOf(next) ? keyed.get(keyOf(next)) : at;
    if (!isAlike(old, next)) parent.insertBefore(next, at);
    else {
      if (old === at) at = at.nextSibling;
      else parent.insertBefore(old, at);
      update(old, next);
    }
  }
  while (at) {
    const gone = at;
    at = at.nextSibling;
    gone.remove();
  }
}
