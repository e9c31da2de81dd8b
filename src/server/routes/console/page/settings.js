import { select, typed } from './dom.js';

// The settings that the server wrote into the page: the parts that it serves, and the widths of
// every layout.
export const settings = JSON.parse(document.querySelector('meta[name=raindrop]').content);

const LETTERS = { t: 'timestamp', d: 'data_center', w: 'worker_id', l: 'lane', s: 'sequence', r: 'reserved' };

// Parses `t41w9l1s12` into [name, bits] of each field, from the most significant.
const read = ([name, text]) =>
  ({ name, fields: [...text.matchAll(/([a-z])(\d+)/g)].map(([, letter, bits]) => [LETTERS[letter], Number(bits)]) });

export const namespaces = settings.namespaces.map(read);
export const segments = namespaces.filter((one) => !one.fields.length);
export const timed = namespaces.filter((one) => one.fields.length);
export const presets = settings.presets.map(read);
export const layouts = [...presets, ...settings.foreign.map(read)];

// Parses `time:39@10ms,worker:16` into [name, bits] of each field.
const DESCRIBED = { time: 'timestamp', worker: 'worker_id' };
const described = (text) => [...text.matchAll(/(\w+):(\d+)/g)].map(([, name, bits]) => [DESCRIBED[name] ?? name, Number(bits)]);
export const isDescription = (layout) => layout?.includes(':') ?? false;

// Returns the fields of a response of /parse.
export const fieldsOf = ({ layout, namespace }) => (isDescription(layout) ? described(layout)
  : (layout ? layouts : namespaces).find((one) => one.name === (layout ?? namespace))?.fields ?? []);

// A control for the namespace: a list, or an input if the page does not know the namespaces.
export function chooser(list, value, none) {
  if (settings.needs_token) return typed({ value, placeholder: none });
  return select([...(none ? [['', none]] : []), ...list.map(({ name }) => name)], value);
}
