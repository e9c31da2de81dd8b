// All fields of an ID, as /parse returns them.
import { bar, legend, NAMES } from './bits.js';
import { copyButton, facts, h } from './dom.js';
import { everyEncoding, label } from './encodings.js';
import { localTime, relative, t, told } from './i18n.js';
import { fieldsOf, presets } from './settings.js';

export function bits(parsed) {
  const fields = fieldsOf(parsed);
  const warning = parsed.warning && h('p.problem', told(parsed.warning));
  // An ID of a namespace that the page does not know, because tokens are required.
  if (!fields.length) return [warning, facts(Object.entries(NAMES).filter(([name]) => parsed[name] !== undefined).map(([name, text]) => [t(text), name === 'timestamp' ? parsed.tick : parsed[name]]))];
  return [warning, bar(fields, BigInt(parsed.id)), legend(fields, { ...parsed, timestamp: parsed.tick })];
}

export function details(parsed) {
  const hasLayout = !parsed.layout || presets.some((one) => one.name === parsed.layout);
  const safety = parsed.js_safe
    ? t('yes: below 2^53, exact as a JavaScript number')
    : t('no: above 2^53, keep it as a string in JavaScript');
  const encoding = ([name, text]) => h('tr',
    h('th', { scope: 'row' }, label(name)), h('td.mono.wrap', text), h('td', copyButton(text, name)));
  return [
    h('p.id.mono', parsed.id),
    bits(parsed),
    facts([
      [t('Time (UTC)'), h('time', { datetime: parsed.timestamp }, parsed.timestamp)],
      [t('Local time'), localTime(parsed.unix_ms)],
      [t('Age'), relative(parsed.unix_ms)],
      [t('Safe in JavaScript'), safety],
      [parsed.layout ? t('Layout') : t('Namespace'), parsed.layout ?? parsed.namespace],
      parsed.wraps && [t('The time wraps'), t('the latest instant with these bits is shown')],
    ]),
    h('table.encodings', h('caption', t('In every encoding')),
      h('tbody', everyEncoding(parsed, hasLayout).map(encoding))),
  ];
}
