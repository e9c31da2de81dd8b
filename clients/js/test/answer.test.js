import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import test from 'node:test';

import { readAnswer } from '../dist/esm/answer.js';
import { answerOf } from './support.js';

const read = (body, upTo = 1_000_000) => readAnswer(JSON.stringify(body), upTo);
const rangeOf = (more) => ({ first: '10', last: '12', step: '1', count: 3, ...more });
const refused = (body, message, upTo) => {
  assert.throws(() => read(body, upTo), { name: 'RaindropError', kind: 'invalid_answer', message });
};

test('the example of the contract is valid', async () => {
  const contract = await readFile(
    new URL('../../../docs/clients/protocol.md', import.meta.url),
    'utf8',
  );
  const [, example] = contract.match(/```json\n(.*?)```/s);
  const answer = readAnswer(example, 100_000);
  assert.equal(answer.prefix, 'ORD-');
  assert.equal(answer.total, 3 + 4 * 4096);
  assert.deepEqual(answer.ranges[1], {
    first: 252201579136946176n,
    last: 252201579149533183n,
    step: 1n,
    count: 4096,
    repeat: 4,
    stride: 4194304n,
  });
});

test('unknown fields are ignored', () => {
  assert.equal(read(answerOf(2, 1n, { surprise: {} })).total, 2);
});

test('the smallest and the largest ID are valid', () => {
  const ends = [
    rangeOf({ first: '0', last: '2' }),
    rangeOf({ first: '9223372036854775805', last: '9223372036854775807' }),
  ];
  assert.equal(read({ ranges: ends }).total, 6);
});

test('a layout ages even where its timestamp wraps, a segment does not', () => {
  const ranges = [rangeOf()];
  assert.equal(read({ layout: 'minute …', ranges }).ages, true);
  assert.equal(read({ increment: '1', ranges }).ages, false);
});

for (const [name, body, message, upTo] of [
  ['not an object', [], /ranges: none/],
  ['null', null, /ranges: none/],
  ['no ranges', {}, /ranges: none/],
  ['empty ranges', { ranges: [] }, /ranges: none/],
  ['ranges that are no list', { ranges: {} }, /ranges: none/],
  ['a range that is no object', { ranges: [7] }, /ranges\[0\]\.first: undefined/],
  ['a count of 0', { ranges: [rangeOf({ count: 0, last: '9' })] }, /ranges\[0\]\.count/],
  ['a count in text', { ranges: [rangeOf({ count: '3' })] }, /ranges\[0\]\.count/],
  ['a fraction as count', { ranges: [rangeOf({ count: 2.5 })] }, /ranges\[0\]\.count/],
  ['a step of 0', { ranges: [rangeOf({ step: '0', last: '10' })] }, /ranges\[0\]\.step/],
  ['a number as first', { ranges: [rangeOf({ first: 10 })] }, /ranges\[0\]\.first/],
  ['a negative first', { ranges: [rangeOf({ first: '-1', last: '1' })] }, /ranges\[0\]\.first/],
  ['a leading zero', { ranges: [rangeOf({ first: '010' })] }, /ranges\[0\]\.first/],
  ['hexadecimal', { ranges: [rangeOf({ first: '0xa' })] }, /ranges\[0\]\.first/],
  ['a space', { ranges: [rangeOf({ first: ' 10' })] }, /ranges\[0\]\.first/],
  ['no last', { ranges: [rangeOf({ last: undefined })] }, /ranges\[0\]\.last/],
  ['another last', { ranges: [rangeOf({ last: '13' })] }, /the IDs end at 12/],
  [
    'an ID of 2^63',
    { ranges: [rangeOf({ first: '9223372036854775806', last: '9223372036854775808' })] },
    /above 2\^63/,
  ],
  ['repeat without stride', { ranges: [rangeOf({ repeat: 1 })] }, /ranges\[0\]\.stride/],
  ['stride without repeat', { ranges: [rangeOf({ stride: '4' })] }, /ranges\[0\]\.repeat/],
  ['a repeat of 0', { ranges: [rangeOf({ repeat: 0, stride: '4' })] }, /ranges\[0\]\.repeat/],
  [
    'rows that touch',
    { ranges: [rangeOf({ repeat: 2, stride: '2', last: '14' })] },
    /rows overlap/,
  ],
  [
    'a range below the one before',
    { ranges: [rangeOf(), rangeOf({ first: '1', last: '3' })] },
    /ranges\[1\]\.first/,
  ],
  [
    'a range that begins at the last end',
    { ranges: [rangeOf(), rangeOf({ first: '12', last: '14' })] },
    /ranges\[1\]\.first/,
  ],
  ['more than was asked for', { ranges: [rangeOf()] }, /3 IDs, but at most 2/, 2],
  [
    'rows with more than was asked for',
    { ranges: [rangeOf({ repeat: 2, stride: '4', last: '16' })] },
    /6 IDs/,
    5,
  ],
  ['a prefix that is no text', { ranges: [rangeOf()], prefix: 7 }, /prefix/],
  [
    'a time beyond 63 bits',
    { ranges: [rangeOf()], time: { epoch_ms: 0, unit_ms: 1, shift: 60, bits: 4 } },
    /time/,
  ],
  [
    'a time without a unit',
    { ranges: [rangeOf()], time: { epoch_ms: 0, shift: 22, bits: 41 } },
    /time/,
  ],
  ['a time in text', { ranges: [rangeOf()], time: 'now' }, /time/],
  ['an until that is no time', { ranges: [rangeOf()], until: 'soon' }, /until/],
]) {
  test(`refused: ${name}`, () => refused(body, message, upTo));
}

test('refused: text that is no JSON', () => {
  for (const text of ['', '{"ranges":[{"fir', '<html>', '{}{}']) {
    assert.throws(() => readAnswer(text, 1), { kind: 'invalid_answer' });
  }
});
