import { invalid } from './errors.js';

const isDecimal = (given: unknown) =>
  typeof given === 'string' && /^(0|[1-9][0-9]{0,18})$/.test(given);
const isPositive = (given: unknown) => Number.isSafeInteger(given) && Number(given) >= 1;

/** The largest ID: a positive 64-bit number. */
export const LARGEST_ID = 2n ** 63n - 1n;

/** IDs in the compact form of the service; never expanded. */
export interface Range {
  first: bigint;
  last: bigint;
  step: bigint;
  /** How many IDs a row has, `step` apart. */
  count: number;
  /** How many rows there are. */
  repeat: number;
  /** From a row to the next. */
  stride: bigint;
}

/** Where an ID has its time: `tick = (id >> shift) & mask`, in Unix ms `epoch + tick * unit`. */
export interface TimeField {
  shift: bigint;
  mask: bigint;
  epoch: number;
  unit: number;
}

/** Whether two answers say the same of the time of their IDs. */
export function isSameTime(one: TimeField | undefined, other: TimeField | undefined): boolean {
  return (
    one?.shift === other?.shift &&
    one?.mask === other?.mask &&
    one?.epoch === other?.epoch &&
    one?.unit === other?.unit
  );
}

/** A checked answer. */
export interface Answer {
  ranges: Range[];
  /** How many IDs the ranges have. */
  total: number;
  prefix: string;
  time: TimeField | undefined;
  /** Whether the IDs get old: all but numbers of segment mode. */
  ages: boolean;
  /** How long the IDs may be used, in ms; Infinity if the answer does not say. */
  life: number;
}

/**
 * Reads and checks an answer to `format=range&up_to=N`; throws `invalid_answer` unless all of it holds.
 *
 * @param text the body
 * @param upTo how many IDs were asked for
 */
export function readAnswer(text: string, upTo: number): Answer {
  const body = parseJson(text);
  if (body === undefined) throw invalid('the answer is not JSON');
  const { prefix = '', layout, increment } = body;
  check(Array.isArray(body.ranges) && body.ranges.length > 0, 'ranges: none in the answer');
  const ranges: Range[] = body.ranges.map(readRange);
  ranges.forEach(({ first }, i) => {
    check(
      i === 0 || first > ranges[i - 1]!.last,
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
  const ages = layout !== undefined || increment === undefined;
  return { ranges, total, prefix, time, life, ages };
}

/** Throws `invalid_answer` unless a condition holds. */
function check(holds: boolean, message: string): void {
  if (!holds) throw invalid(message);
}

/**
 * Returns the value of a JSON text, or undefined if the text is not JSON. A value that is no object
 * becomes one without the fields that a caller looks for.
 */
export function parseJson(text: string): Record<string, any> | undefined {
  try {
    return Object(JSON.parse(text));
  } catch {
    return undefined;
  }
}

function readRange(item: any, i: number): Range {
  const value = item ?? {};
  const field = (name: string, isRight: (given: unknown) => boolean) => {
    check(
      isRight(value[name]),
      `ranges[${i}].${name}: ${JSON.stringify(value[name])} is not allowed there`,
    );
    return value[name];
  };
  const number = (name: string) => BigInt(field(name, isDecimal));
  const positive = (name: string): number => field(name, isPositive);
  const isRepeated = value.repeat !== undefined || value.stride !== undefined;
  const first = number('first');
  const last = number('last');
  const step = number('step');
  const count = positive('count');
  const repeat = isRepeated ? positive('repeat') : 1;
  const stride = isRepeated ? number('stride') : 0n;
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

function readTime(value: any): TimeField {
  const { epoch_ms: epoch, unit_ms: unit, shift, bits } = value ?? {};
  const isWhole = [epoch, unit, shift, bits].every(Number.isSafeInteger);
  const fits = isWhole && unit >= 1 && shift >= 0 && bits >= 1 && shift + bits <= 63;
  check(fits, `time: ${JSON.stringify(value)} describes no time in 63 bits`);
  return { epoch, unit, shift: BigInt(shift), mask: 2n ** BigInt(bits) - 1n };
}
