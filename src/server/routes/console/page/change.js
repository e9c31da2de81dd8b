// The dialogs that create and change codes.
import { address, change } from './api.js';
import { ask } from './dialog.js';
import { announce, field, h, select, typed } from './dom.js';
import { t } from './i18n.js';
import { chooser, segments, settings } from './settings.js';
import { tip } from './tip.js';

const path = (code, action = '') => address(`/codes/${encodeURIComponent(code.code)}${action}`, { namespace: code.namespace });
const text = (value, props) => typed({ value: value ?? '', inputmode: 'numeric', pattern: '[0-9]*', ...props });

// The settings that the user filled in. Numbers are strings, which keep all their digits.
function given(inputs) {
  const body = {};
  for (const [name, input] of Object.entries(inputs)) {
    if (input.type === 'checkbox') body[name] = input.checked;
    else if (input.value !== '') body[name] = input.value;
  }
  return body;
}

async function done(work, again) {
  if (!(await work)) return;
  announce(t('Done'));
  again();
}

export function create(again) {
  const name = typed({ required: true, pattern: '[A-Za-z0-9][A-Za-z0-9._:\\-]{0,63}' });
  const namespace = chooser(segments, segments[0]?.name ?? '');
  const inputs = { start: text('1'), min_step: text(''), max_step: text(''), increment: text('1'), remainder: text('0'), max: text(''), js_safe: h('input', { type: 'checkbox' }), text: typed({ placeholder: 'INV-{n:06}', maxlength: 64 }), failover_gap: text(''), strict: h('input', { type: 'checkbox' }) };
  return done(ask({
    title: t('New code'),
    body: [
      h('p', t('Every node can issue it a moment later. Increment and remainder are fixed from then on.')),
      h('.controls', field(t('Code'), name), (segments.length > 1 || settings.needs_token) && field(t('Namespace'), namespace), field(t('Start'), inputs.start), field(t('Largest number'), inputs.max, t('empty: none below 2^63')),
        field(t('Smallest step'), inputs.min_step, t('empty: as configured'), tip('step')), field(t('Largest step'), inputs.max_step, t('empty: as configured')), field(t('Increment'), inputs.increment), field(t('Remainder'), inputs.remainder), field(t('Written as'), inputs.text, t('empty: plain')), field(t('Gap after a fail-over'), inputs.failover_gap, t('empty: as configured'))),
      h('label.check', inputs.js_safe, ' ', t('Stay below 2^53, safe in JavaScript')),
      h('label.check', inputs.strict, ' ', t('Strict: ascending over all nodes, none without the store; needs a gap')),
    ],
    action: t('Create'),
    submit: () => change('PUT', path({ code: name.value, namespace: namespace.value }), given(inputs), { 'if-none-match': '*' }),
  }), again);
}

export function widen(code, again) {
  // A strict code has no blocks, and refuses steps.
  const steps = code.strict ? {} : { min_step: text(code.min_step), max_step: text(code.max_step) };
  const inputs = { ...steps, max: text(code.max) };
  return done(ask({
    title: t('Widen {code}', { code: code.code }),
    body: [
      !code.strict && h('p', t('Larger steps ask the store less often. A crash loses up to two blocks of this size, and one that was being reserved.')),
      h('.controls', !code.strict && field(t('Smallest step'), inputs.min_step, '', tip('step')), !code.strict && field(t('Largest step'), inputs.max_step), field(t('Largest number'), inputs.max)),
    ],
    action: t('Save'),
    submit: () => change('PATCH', path(code), given(inputs)),
  }), again);
}

export function raise(code, again) {
  const how = select([['by', t('by')], ['to', t('to')]], 'by');
  const value = text('', { required: true });
  return done(ask({
    title: t('Raise {code}', { code: code.code }),
    body: [
      h('p', t('The numbers that are skipped are never issued. This is always safe, and cannot be undone.')),
      h('p', t('Next now: {next}', { next: code.next })),
      h('.controls', field(t('Raise'), how), field(t('Number'), value)),
    ],
    action: t('Raise'),
    submit: () => change('POST', path(code, '/raise'), { [how.value]: value.value }),
  }), again);
}

export function retire(code, again) {
  const name = typed({ required: true });
  return done(ask({
    title: t('Retire {code}', { code: code.code }),
    body: [
      h('p', t('No node will ever issue a number of it again. This cannot be undone.')),
      field(t('Type {code} to confirm', { code: code.code }), name),
    ],
    action: t('Retire for ever'),
    danger: true,
    submit: () => {
      if (name.value !== code.code) throw { detail: t('this is not {code}', { code: code.code }) };
      return change('POST', path(code, '/retire'));
    },
  }), again);
}
