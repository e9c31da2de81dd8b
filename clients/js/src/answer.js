import { invalid } from './errors.js';

/** @param {unknown} given */
const isDecimal = (given) => typeof given === 'string' && /^(0|[1-9][0-9]{0,18})$/.test(given);
/** @param {unknown} given */
const isPositive = (given) => Number.isSafeInteger(given) && Number(given) >= 1;

/** The largest ID: a positive 64-bit number. */
export const LARGEST_ID = 2n ** 63n - 1n;

/**
 * @typedef {object} Range IDs in the compact form of the service; never expanded.
 * @property {bigint} first
 * @property {bigint} last
 * @property {bigint} step
 * @property {number} count how many IDs a row has, `step` apart
 * @property {number} repeat how many rows there are
 * @property {bigint} stride from a row to the next
 *
 * @typedef {object} TimeField `tick = (id >> shift) & mask`, in Unix ms `epoch + tick * unit`
 * @property {bigint} shift
 * @property {bigint} mask
 * @property {number} epoch
 * @property {number} unit
 *
 * @typedef {object} Answer
 * @property {Range[]} ranges
 * @property {number} total how many IDs the ranges have
 * @property {string} prefix
 * @property {TimeField | undefined} time
 * @property {boolean} ages whether the IDs tell a time, so that they get old
 * @property {number} life how long the IDs may be used, in ms; Infinity if the answer does not say
 */

/**
 * Reads and checks an answer to `format=range&up_to=N`; throws `invalid_answer` unless all of it holds.
 *
 * @param {string} text the body
 * @param {number} upTo how many IDs were asked for
 * @returns {Answer}
 */
export function readAnswer(text, upTo) {
  const body = parseJson(text);
  if (body === undefined) throw invalid('the answer is not JSON');
  const { prefix = '', layout } = body;
  check(Array.isArray(body.ranges) && body.ranges.length > 0, 'ranges: none in the answer');
  /** @type {Range[]} */
  const ranges = body.ranges.map(readRange);
  ranges.forEach(({ first }, i) => {
    check(
      i === 0 || first > ranges[i - 1].last,
      `ranges[${i}].first: ${first} is not above the range before`,
    );
  });
  const total = ranges.reduce((sum, { count, repeat }) => sum + count * repeat, 0);
  check(total <= upTo, `ranges: ${total} IDs, but at most ${upTo} were asked for`);
  check(typeof prefix === 'string', 'prefix: not a string');
  const life =
    body.until === undefined ? Infinity : Date.parse(body.until) - Date.parse(body.issued_at);
  check(
    !Number.isNaN(life),
    `until: ${JSON.stringify(body.until)} is no time, or issued_at is none`,
  );
  const time = body.time === undefined ? undefined : readTime(body.time);
  return { ranges, total, prefix, time, life, ages: layout !== undefined || time !== undefined };
}

/**
 * Throws `invalid_answer` unless a condition holds.
 *
 * @param {boolean} holds
 * @param {string} message
 */
function check(holds, message) {
  if (!holds) throw invalid(message);
}

/**
 * Returns the value of a JSON text, or undefined if the text is not JSON. A value that is no object
 * becomes one without the fields that a caller looks for.
 *
 * @param {string} text
 * @returns {Record<string, any> | undefined}
 */
export function parseJson(text) {
  try {
    return Object(JSON.parse(text));
  } catch {
    return undefined;
  }
}

/**
 * @param {any} item
 * @param {number} i
 * @returns {Range}
 */
function readRange(item, i) {
  const value = item ?? {};
  /**
   * @param {string} name
   * @param {(given: unknown) => boolean} isRight
   */
  const field = (name, isRight) => {
    check(
      isRight(value[name]),
      `ranges[${i}].${name}: ${JSON.stringify(value[name])} is not allowed there`,
    );
    return value[name];
  };
  /** @param {string} name */
  const number = (name) => BigInt(field(name, isDecimal));
  /** @param {string} name */
  const positive = (name) => field(name, isPositive);
  const isRepeated = value.repeat !== undefined || value.stride !== undefined;
  const [first, last, step, count] = [
    number('first'),
    number('last'),
    number('step'),
    positive('count'),
  ];
  const [repeat, stride] = isRepeated ? [positive('repeat'), number('stride')] : [1, 0n];
  const width = BigInt(count - 1) * step;
  const end = first + BigInt(repeat - 1) * stride + width;
  check(step >= 1n, `ranges[${i}].step: 0, but at least 1 is allowed`);
  check(
    !isRepeated || stride > width,
    `ranges[${i}].stride: ${stride} is not above ${width}, so the rows overlap`,
  );
  check(end === last, `ranges[${i}].last: ${last}, but the IDs end at ${end}`);
  check(last <= LARGEST_ID, `ranges[${i}].last: ${last} is above 2^63 - 1`);
  return { first, last, step, count, repeat, stride };
}

/**
 * @param {any} value
 * @returns {TimeField}
 */
function readTime(value) {
  const { epoch_ms: epoch, unit_ms: unit, shift, bits } = value ?? {};
  const isWhole = [epoch, unit, shift, bits].every(Number.isSafeInteger);
  const fits = isWhole && unit >= 1 && shift >= 0 && bits >= 1 && shift + bits <= 63;
  check(fits, `time: ${JSON.stringify(value)} describes no time in 63 bits`);
  return { epoch, unit, shift: BigInt(shift), mask: 2n ** BigInt(bits) - 1n };
}
