// The page "/docs": the API document for people.
import { getJson, request as send, service } from './api.js';
import { badge, card, copyButton, field, h, muted, pre, problem, put, term, typed } from './dom.js';
import { t } from './i18n.js';
import { build } from './page.js';
import { settings } from './settings.js';

// Renders the subset of Markdown that descriptions use: `code`, paragraphs and lists.
function inline(text) {
  return text.split(/`([^`]+)`/).map((part, index) => (index % 2 ? h('code', part) : part));
}

function prose(text = '') {
  const blocks = [];
  for (const line of text.split('\n').filter((one) => one.trim())) {
    const [, item] = line.match(/^- (.*)/) ?? [];
    if (item === undefined) blocks.push(h('p', inline(line)));
    else {
      if (blocks.at(-1)?.tagName !== 'UL') blocks.push(h('ul'));
      blocks.at(-1).append(h('li', inline(item)));
    }
  }
  return blocks;
}

let api;
const resolve = (one) => (one?.$ref ? one.$ref.slice(2).split('/').reduce((at, key) => at[key], api) : one);

function kind(raw) {
  const name = raw?.$ref?.split('/').at(-1);
  const schema = resolve(raw) ?? {};
  if (name) return name;
  if (schema.type === 'array') return `${kind(schema.items)}[]`;
  const any = schema.oneOf ?? schema.anyOf;
  if (any) return any.map(kind).join(' | ');
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(' | ');
  return [schema.type ?? 'object'].flat().join(' | ') + (schema.format ? ` (${schema.format})` : '');
}

function limits(schema) {
  const told = [
    schema.default !== undefined && `${t('default')} ${schema.default}`,
    schema.minimum !== undefined && `≥ ${schema.minimum}`, schema.maximum !== undefined && `≤ ${schema.maximum}`,
    schema.pattern && schema.pattern,
  ].filter(Boolean);
  return told.length > 0 && h('small.mono.wrap', told.join(' · '));
}

// Builds an example from those of the properties.
function example(raw, depth = 0) {
  const schema = resolve(raw) ?? {};
  if (schema.example !== undefined) return schema.example;
  if (schema.examples?.length) return schema.examples[0];
  const first = (schema.oneOf ?? schema.anyOf)?.[0];
  if (first && depth < 4) return example(first, depth + 1);
  if (schema.enum) return schema.enum[0];
  if (schema.type === 'array') return depth < 4 ? [example(schema.items, depth + 1)] : [];
  if (schema.properties) return Object.fromEntries(Object.entries(schema.properties).map(([key, of]) => [key, depth < 4 ? example(of, depth + 1) : null]));
  return { integer: 0, number: 0, boolean: true, object: {} }[[schema.type].flat()[0]] ?? '…';
}

function parameters(list) {
  const one = (raw) => {
    const parameter = resolve(raw);
    return term([h('code', parameter.name), ' ', h('small', kind(parameter.schema), parameter.required ? ` · ${t('required')}` : '')],
      prose(parameter.description), limits(resolve(parameter.schema) ?? {}));
  };
  return [h('h3', t('Parameters')), h('dl.described', list.map(one))];
}

function response([status, raw]) {
  const answer = resolve(raw);
  const content = Object.entries(answer.content ?? {});
  const body = ([type, { schema }]) => h('details', h('summary', h('code', type), ' ', h('small', kind(schema))),
    type.endsWith('json') && !type.includes('problem') && pre(JSON.stringify(example(schema), null, 2), `${status} ${type}`));
  return term(badge(status < 400, status), prose(answer.description), status < 400 && content.map(body));
}

// The routes that come first: most readers want an ID.
const FIRST = ['/id/{code}', '/ids/{code}', '/parse/{id}', '/bounds', '/plan'];
const MOST_SHOWN = 20000;
const place = ([path]) => (FIRST.indexOf(path) + 1) || FIRST.length + 1;

// The request of an operation, to copy as curl, or to edit and send.
function request(path, operation) {
  const filled = path.replace(/\{(\w+)\}/g, (whole, name) => {
    const parameter = operation.parameters?.map(resolve).find((one) => one.name === name);
    return parameter?.schema?.examples?.[0] ?? name;
  });
  const query = (operation.parameters ?? []).map(resolve).filter((one) => one.in === 'query' && one.required)
    .map((one) => `${one.name}=${encodeURIComponent(one.schema?.examples?.[0] ?? '')}`).join('&');
  const token = settings.needs_token && operation.security?.length !== 0 ? ' -H "Authorization: Bearer $TOKEN"' : '';
  const input = typed({ class: 'mono', value: `${filled}${query && `?${query}`}` });
  const text = () => `curl${token} '${location.origin}${input.value.replaceAll("'", '%27')}'`;
  const code = h('code', { tabindex: 0, role: 'group', 'aria-label': 'curl' }, text());
  const output = h('div', { 'aria-live': 'polite' });
  input.oninput = () => (code.textContent = text());
  const onsubmit = async (event) => {
    event.preventDefault();
    try {
      // Sent to this service, whatever host was typed.
      const { pathname, search } = new URL(input.value, location.origin);
      const response = await send('GET', location.origin + pathname + search);
      const body = (await response.text()).slice(0, MOST_SHOWN);
      put(output, badge(true, response.status), body && pre(body, t('Answer')));
    } catch (error) {
      put(output, badge(false, error.status ?? '–'), problem(error));
    }
  };
  return [h('.way', code, copyButton(text, 'curl')),
    h('form.send', { onsubmit }, field('GET', input), h('button', t('Send'))), output];
}

const anchor = (path) => path.replace(/\W+/g, '-').replace(/^-|-$/g, '');

function section([path, item]) {
  const operations = Object.entries(item).filter(([, one]) => one.responses);
  const [, first] = operations.find(([verb]) => verb === 'get') ?? operations[0];
  const changes = operations.filter(([verb]) => !['get', 'head'].includes(verb) && item[verb].summary !== first.summary);
  const words = ([verb, one]) => [h('h3', `${verb.toUpperCase()}: ${one.summary}`), prose(one.description)];
  const all = new Map(operations.flatMap(([, one]) => (one.parameters ?? []).map(resolve)).map((one) => [one.name, one]));
  const responses = Object.entries(Object.assign({}, ...operations.map(([, one]) => one.responses), first.responses));
  return h('section.card', { id: anchor(path) },
    h('h2', operations.map(([verb]) => h('span.verb', verb.toUpperCase())), h('span.mono.wrap', path)),
    h('p', h('b', first.summary)), prose(first.description), changes.map(words), item.get && request(path, first),
    all.size > 0 && parameters([...all.values()]),
    h('h3', t('Responses')), h('dl.described', responses.map(response)));
}

function schemas() {
  const property = ([name, raw]) => {
    const of = resolve(raw);
    return term([h('code', name), ' ', h('small', kind(raw))], prose(of?.description), limits(of ?? {}));
  };
  const one = ([name, schema]) => h('details', { id: `schema-${name}` }, h('summary', h('code', name)), prose(schema.description),
    h('dl.described', Object.entries(schema.properties ?? {}).map(property)));
  return card(t('Schemas'), Object.entries(api.components?.schemas ?? {}).map(one));
}

async function start() {
  const output = h('.stack', muted(t('Loading…')));
  build(h('main', h('h1', t('API documentation')), output), start);
  document.title = `${t('API documentation')} · Raindrop`;
  try {
    api ??= await getJson('/openapi.json');
    const paths = Object.entries(api.paths).sort((a, b) => place(a) - place(b));
    put(output,
      card(null, h('details', h('summary', t('What holds for every request')), prose(api.info.description))),
      h('nav.card', { 'aria-label': t('Routes') }, h('ul.routes', paths.map(([path, item]) => h('li',
        h('a.mono', { href: `#${anchor(path)}` }, path), ' ', h('span.muted', Object.values(item).find((of) => of.summary)?.summary))))),
      paths.map(section), schemas());
    if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
  } catch (error) {
    put(output, card(null, problem(error)));
  }
}

service.addEventListener('up', () => api ?? start());
start();
