// The texts in the code are English; zh.js, which only its readers load, has their Chinese.
const KEPT = 'raindrop.language';
export const LANGUAGES = { en: 'English', zh: '中文' };

let language = localStorage.getItem(KEPT) ?? (navigator.language.startsWith('zh') ? 'zh' : 'en');
if (!LANGUAGES[language]) language = 'en';

let chinese = { zh: {}, patterns: [] };

async function load() {
  // Without the file, the page is in English.
  if (language === 'zh') chinese = await import('./zh.js').catch(() => chinese);
}
await load();

export const lang = () => language;
export const locale = () => (language === 'zh' ? 'zh-CN' : 'en-GB');

export async function setLanguage(name) {
  language = name;
  localStorage.setItem(KEPT, name);
  await load();
}

// Returns a text in the language of the page, with {name} replaced by its value.
export function t(text, values = {}) {
  const found = language === 'zh' ? (chinese.zh[text] ?? text) : text;
  return found.replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
}

// Returns a text of the server in the language of the page, if zh.js has it.
export function told(text) {
  const line = (one) => {
    const found = language === 'zh' && chinese.patterns.find(([pattern]) => pattern.test(one));
    return found ? one.replace(...found) : one;
  };
  return text.split('\n').map(line).join('\n');
}

export const number = (value, digits = 0) =>
  new Intl.NumberFormat(locale(), { maximumFractionDigits: digits }).format(value);

export const short = (value) =>
  new Intl.NumberFormat(locale(), { notation: 'compact', maximumFractionDigits: 1 }).format(value);

export const localTime = (ms) => {
  const date = new Date(ms);
  if (Number.isNaN(date.getTime())) return '–';
  return new Intl.DateTimeFormat(locale(), { dateStyle: 'medium', timeStyle: 'long' }).format(date);
};

const LENGTHS = [['day', 86400], ['hour', 3600], ['minute', 60], ['second', 1]];

// Formats a remaining time in its two largest units, such as "4m 3s".
export function countdown(ms) {
  let seconds = Math.max(0, Math.floor(ms / 1000));
  const first = Math.min(2, LENGTHS.findIndex(([, length]) => seconds >= length || length === 1));
  const parts = LENGTHS.slice(first, first + 2).map(([unit, length]) => {
    const count = Math.floor(seconds / length);
    seconds -= count * length;
    return new Intl.NumberFormat(locale(), { style: 'unit', unit, unitDisplay: 'narrow' }).format(count);
  });
  return parts.join(' ');
}

// The time until an instant, which may be over.
export const remaining = (ms) => (ms > 0 ? countdown(ms) : t('over'));

const UNITS = [['year', 31557600e3], ['month', 2629800e3], ['day', 864e5], ['hour', 36e5], ['minute', 6e4], ['second', 1e3]];

// Formats an instant relative to now, such as "3 minutes ago" or "in 2 hours".
export function relative(ms, now = Date.now()) {
  const away = ms - now;
  const [unit, length] = UNITS.find(([, length]) => Math.abs(away) >= length) ?? UNITS[5];
  return new Intl.RelativeTimeFormat(locale(), { numeric: 'auto' }).format(Math.trunc(away / length), unit);
}
