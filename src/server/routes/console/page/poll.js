// Polls for content while the tab is visible.
import { button, card, problem, put } from './dom.js';
import { countdown, t } from './i18n.js';

// Calls `ask(quiet, again)` now and every `every` milliseconds. It returns the content, or throws;
// `again` polls at once. The focus stays on the control with the same id.
export function poll(every, ask, output) {
  let timer;
  let stopped = false;
  let run = 0;
  async function again(quiet) {
    clearTimeout(timer);
    const mine = (run += 1);
    const make = await ask(quiet, again).catch((error) => () => card(null, problem(error), button(t('Try again'), () => again())));
    if (stopped || mine !== run) return;
    timer = setTimeout(tick, every);
    const focused = output.contains(document.activeElement) && document.activeElement.id;
    const places = [...output.querySelectorAll('.scroll')].map((one) => one.scrollLeft);
    put(output, make());
    output.querySelectorAll('.scroll').forEach((one, index) => (one.scrollLeft = places[index] ?? 0));
    if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  }
  function tick() {
    if (document.hidden) timer = setTimeout(tick, every);
    else again(true);
  }
  const back = () => {
    if (!document.hidden) again(true);
  };
  const counting = setInterval(() => {
    for (const one of output.querySelectorAll('[data-until]')) one.textContent = countdown(one.dataset.until - Date.now());
  }, 1000);
  document.addEventListener('visibilitychange', back);
  again();
  return {
    again,
    refresh: () => again(true),
    stop: () => {
      stopped = true;
      clearTimeout(timer);
      clearInterval(counting);
      document.removeEventListener('visibilitychange', back);
    },
  };
}
