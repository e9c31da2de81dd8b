// The parts of every page: header, footer, language, colours, token, and the notice that the
// service is down.
import { forgetToken, hasToken, request, service } from './api.js';
import { announce, button, h, put, svg, wordsOf } from './dom.js';
import { lang, LANGUAGES, setLanguage, t } from './i18n.js';
import { settings } from './settings.js';

const KEPT = 'raindrop.colours';
const dark = matchMedia('(prefers-color-scheme: dark)');
const HEARTBEAT = 10000;

const isDark = () => (localStorage.getItem(KEPT) ?? (dark.matches ? 'dark' : 'light')) === 'dark';
const paint = () => (document.documentElement.dataset.colours = isDark() ? 'dark' : 'light');
paint();
dark.addEventListener('change', paint);

const drop = () => svg('svg.drop', { viewBox: '0 0 24 24', 'aria-hidden': 'true' },
  svg('path', { d: 'M12 2c4 5.5 7 9 7 13a7 7 0 0 1-14 0c0-4 3-7.5 7-13z' }));

// Opens a document in a new window, with the token, which a plain link does not send.
async function open(event) {
  if (!settings.needs_token) return;
  event.preventDefault();
  const path = event.currentTarget.getAttribute('href');
  try {
    const text = await (await request('GET', path)).text();
    window.open(URL.createObjectURL(new Blob([text], { type: 'text/plain' })), '_blank');
  } catch (error) {
    announce(wordsOf(error));
  }
}

const banner = h('.banner', { role: 'status' });
// The seconds until the next attempt, while the service is down.
let seconds = null;
function tellState() {
  banner.textContent = seconds === null ? ''
    : t('The service does not answer. The next attempt is in {seconds} s.', { seconds });
}
for (const name of ['down', 'up']) {
  service.addEventListener(name, ({ detail }) => {
    seconds = detail;
    tellState();
  });
}

function header(again) {
  const other = lang() === 'en' ? 'zh' : 'en';
  const language = button(LANGUAGES[other], async () => {
    await setLanguage(other);
    again();
    document.querySelector('#language').focus();
  }, { class: 'quiet', id: 'language', lang: other });
  const words = () => (isDark() ? t('Light') : t('Dark'));
  const colours = button(words(), () => {
    localStorage.setItem(KEPT, isDark() ? 'light' : 'dark');
    paint();
    colours.textContent = words();
  }, { class: 'quiet', id: 'colours' });
  const forget = button(t('Forget token'), forgetToken, { class: 'quiet', id: 'forget', hidden: !hasToken() });
  service.addEventListener('token', () => (forget.hidden = !hasToken()));
  return h('header', h('a.brand', { href: '/' }, drop(), 'Raindrop'), h('.row', forget, colours, language), banner);
}

function footer() {
  return h('footer',
    h('span', `Raindrop ${settings.version}`),
    h('a', { href: '/docs' }, t('API documentation')),
    h('a', { href: '/openapi.json', onclick: open }, 'OpenAPI'),
    settings.metrics && h('a', { href: '/metrics', onclick: open }, t('Metrics')));
}

// Builds the page around `main`. `again` rebuilds it in another language.
export function build(main, again) {
  document.documentElement.lang = lang() === 'zh' ? 'zh-CN' : 'en';
  tellState();
  const announcer = h('.away', { id: 'announcer', 'aria-live': 'polite' });
  Object.assign(main, { id: 'main', tabIndex: -1 });
  // The address of the page is its state, so a plain link would lose it.
  const skip = h('a.skip', { href: '#main', onclick: (event) => {
    event.preventDefault();
    main.focus();
  } }, t('Skip to the content'));
  put(document.body, skip, header(again), main, footer(), announcer);
}

setInterval(() => {
  // Only whether the service responds matters here.
  if (!document.hidden && seconds === null) request('GET', '/livez').catch(() => {});
}, HEARTBEAT);
