// Polls for content while the tab is visible.
import { button, card, h, problem } from './dom.js';
import { countdown, remaining, t } from './i18n.js';
import { patch } from './patch.js';

// Whether an error says that the service or its store is away. Any other one, such as a refused
// token, also takes away what is shown.
const isAway = (error) => error.away || error.status >= 500;

// Calls `ask(quiet, again)` now and every `every()` milliseconds. It returns a function that makes
// the content from the answer, or throws; `again` polls at once. While the service or the store is
// away, the last content stays, with its age.
export function poll(every, ask, output) {
  const notice = h();
  const content = h('.stack');
  output.append(notice, content);
  let make;
  let came;
  let timer;
  let stopped = false;
  let run = 0;

  function draw() {
    const focused = content.contains(document.activeElement) && document.activeElement.id;
    patch(content, make ? make().flat(3).filter(Boolean) : []);
    if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  }

  function tell(error) {
    const age = make && h('p', t('Shown is the last answer, from {age} ago.').split('{age}').flatMap((text, part) =>
      (part ? [h('time', { 'data-since': came }, countdown(Date.now() - came)), text] : text)));
    patch(notice, error ? [card(null, problem(error), age, button(t('Try again'), () => again()))] : []);
    content.classList.toggle('stale', Boolean(error && make));
  }

  async function again(quiet) {
    clearTimeout(timer);
    const mine = (run += 1);
    let error;
    const next = await ask(quiet, again).catch((thrown) => void (error = thrown));
    if (stopped || mine !== run) return;
    timer = setTimeout(tick, every());
    if (!error) came = Date.now();
    if (!error || !isAway(error)) {
      make = next;
      draw();
    }
    tell(error);
  }
  function tick() {
    if (document.hidden) timer = setTimeout(tick, every());
    else again(true);
  }
  const back = () => {
    if (!document.hidden) again(true);
  };
  const counting = setInterval(() => {
    for (const one of output.querySelectorAll('[data-until]')) one.firstChild.data = remaining(one.dataset.until - Date.now());
    for (const one of output.querySelectorAll('[data-since]')) one.firstChild.data = countdown(Date.now() - one.dataset.since);
  }, 1000);
  document.addEventListener('visibilitychange', back);
  again();
  return {
    again,
    // Makes the content once more from the last answer.
    draw: () => make && draw(),
    refresh: () => again(true),
    stop: () => {
      stopped = true;
      clearTimeout(timer);
      clearInterval(counting);
      document.removeEventListener('visibilitychange', back);
    },
  };
}
