// A table of many rows: filtered by words, sorted by a column, and in pages.
import { button, h, muted, table, typed } from './dom.js';
import { number, t } from './i18n.js';
import { tip } from './tip.js';

const ROWS = 50;
// Fewer rows are seen at a glance.
const FILTERED = 10;
// The user's choices in each table, for as long as the page is open.
const choices = new Map();

const order = (a, b) => (a < b ? -1 : Number(a > b));

// Sorts by the values of a column. Rows without a value come last, in either direction.
function sorted(items, by, isDown) {
  const valued = items.map((item) => [by(item), item]);
  const [none, some] = [true, false].map((isNone) => valued.filter(([value]) => (value === undefined) === isNone));
  some.sort(([a], [b]) => (isDown ? order(b, a) : order(a, b)));
  return [...some, ...none].map(([, item]) => item);
}

// `columns` have a `head`, perhaps the word that a `tip` explains, and `by`, which returns the value
// of an item by which it is sorted. `text` returns the words of an item that the filter finds, `row`
// its row. `draw` draws the content again. At first the rows are in the order of the items.
export function list(id, caption, columns, items, { text, row, draw }) {
  if (!choices.has(id)) choices.set(id, { find: '', isDown: false, page: 0 });
  const chosen = choices.get(id);
  const choose = (change) => {
    Object.assign(chosen, change);
    draw();
  };
  const words = chosen.find.toLowerCase().split(/\s+/);
  const found = items.filter((item) => words.every((word) => text(item).toLowerCase().includes(word)));
  const by = columns[chosen.column]?.by;
  const all = by ? sorted(found, by, chosen.isDown) : found;
  const last = Math.max(0, Math.ceil(all.length / ROWS) - 1);
  const page = Math.min(chosen.page, last);
  const shown = all.slice(page * ROWS, (page + 1) * ROWS);

  const head = ({ head: name, by: of, tip: word }, index) => {
    const isBy = index === chosen.column;
    const sort = () => choose({ column: index, isDown: isBy && !chosen.isDown, page: 0 });
    return {
      text: name, sort: isBy && (chosen.isDown ? 'descending' : 'ascending'),
      shown: [of ? button(name, sort, { class: 'sort', id: `sort-${id}-${index}` }) : name, word && tip(word)],
    };
  };
  const turn = (name, to) => button(name, () => choose({ page: to }), { class: 'quiet', id: `turn-${id}-${to > page}`, disabled: to < 0 || to > last });
  const count = all.length ? t('{first}–{last} of {all}', { first: number(page * ROWS + 1), last: number(page * ROWS + shown.length), all: number(all.length) }) : t('none found');
  return [
    (items.length > FILTERED || chosen.find) && h('.row.find', typed({
      type: 'search', id: `find-${id}`, value: chosen.find, placeholder: t('Filter'), 'aria-label': t('Filter {what}', { what: caption }),
      oninput: ({ target }) => choose({ find: target.value, page: 0 }),
    }), h('.row.tight', h('span', { role: 'status' }, count), last > 0 && [turn(t('Previous page'), page - 1), turn(t('Next page'), page + 1)])),
    shown.length ? table(caption, columns.map(head), shown.map(row), '.stacked') : muted(t('No row has these words.')),
  ];
}
