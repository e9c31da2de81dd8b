// A live list of IDs: one each second, the newest first, each with its time.
import { button, h, problem, put } from './dom.js';
import { t } from './i18n.js';

const EVERY = 1000;
const MOST = 10;

// Calls `begin` once for each stream. It returns a function that gets an ID: its text, and a
// function for the details. If the details fail, the ID is shown nevertheless, because it was
// claimed.
export function live(begin) {
  const list = h('ol.live');
  const trouble = h();
  // The function of the running stream, if there is one.
  let take;
  let timer;

  function run(next) {
    take = next;
    clearTimeout(timer);
    toggle.setAttribute('aria-pressed', Boolean(take));
  }

  async function again(mine) {
    // The clock may step back.
    const begun = performance.now();
    try {
      const [id, tell] = await mine();
      if (mine !== take) return;
      const told = h('small');
      list.prepend(h('li', h('code', id), told));
      list.children[MOST]?.remove();
      put(told, await tell());
      if (mine !== take) return;
      timer = setTimeout(() => (document.hidden ? run() : again(mine)), begun + EVERY - performance.now());
    } catch (error) {
      if (mine !== take) return;
      run();
      put(trouble, problem(error));
    }
  }

  const toggle = button(t('One ID each second'), () => {
    const next = take ? undefined : begin();
    run(next);
    if (!next) return;
    put(list);
    put(trouble);
    again(next);
  }, { 'aria-pressed': 'false' });
  return { element: h('.streaming', toggle, trouble, list), stop: () => run() };
}
