// IDs as they come: one each second, the newest first, each with its time.
import { button, h, problem, put } from './dom.js';
import { t } from './i18n.js';

const EVERY = 1000;
const MOST = 10;

// `begin` is asked once for each stream and returns what gets an ID: its text and what to tell of it.
export function live(begin) {
  const list = h('ol.live');
  const trouble = h();
  // Of the stream that runs, if one does.
  let take;
  let timer;

  function run(next) {
    take = next;
    clearTimeout(timer);
    toggle.setAttribute('aria-pressed', Boolean(take));
  }

  async function again(mine) {
    const begun = Date.now();
    try {
      const [id, told] = await mine();
      if (mine !== take) return;
      list.prepend(h('li', h('code', id), h('small', told)));
      list.children[MOST]?.remove();
      timer = setTimeout(() => (document.hidden ? run() : again(mine)), begun + EVERY - Date.now());
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
