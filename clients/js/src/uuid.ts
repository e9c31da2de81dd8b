import type { TimeField } from './answer.js';
import { usage, wrap } from './errors.js';

/** The random bits that one call of the platform gives: two numbers for each UUID. */
const block = new BigUint64Array(128);
let used = block.length;

let source: Crypto | undefined = globalThis.crypto;

/**
 * Waits for the source of random bits. Node 18 has it in a module alone. Its name is not written as a
 * literal, so that no bundler looks for it in a browser.
 */
export async function loadRandomSource(): Promise<void> {
  if (source !== undefined) return;
  const module = ['node', 'crypto'].join(':');
  try {
    source = (await import(/* webpackIgnore: true */ /* @vite-ignore */ module)).webcrypto;
  } catch (error) {
    throw wrap('the platform has no source of random bits', error);
  }
}

/** Returns UUIDs of version 7 of IDs, with random bits of the platform. */
export function randomUuids(code: string, time: TimeField | undefined, ids: bigint[]): string[] {
  if (time === undefined)
    throw usage(`${code}: its IDs have no time, or one that wraps, and a UUID needs one`);
  if (time.unit !== 1)
    throw usage(`${code}: its IDs have ticks of ${time.unit} ms, and a UUID needs 1 ms`);
  if (time.epoch < 0)
    throw usage(`${code}: its IDs begin at ${time.epoch} Unix ms, and a UUID in 1970 or later`);
  return ids.map((id) => uuidOf(time, id, random74Bits()));
}

function random74Bits(): bigint {
  if (used === block.length) {
    try {
      source!.getRandomValues(block);
    } catch (error) {
      throw wrap('the platform has no random bits', error);
    }
    used = 0;
  }
  return (block[used++]! << 10n) | (block[used++]! & 0x3ffn);
}

/**
 * Writes the instant, and in the 74 bits besides version and variant the fields of the ID before random
 * bits: docs/clients.md has the layout.
 *
 * @internal
 */
export function uuidOf({ epoch, shift, mask }: TimeField, id: bigint, random: bigint): string {
  const unixMs = BigInt(epoch) + ((id >> shift) & mask);
  const randomBits = 74n - shift;
  const fields = BigInt.asUintN(Number(shift), id);
  const free = (fields << randomBits) | BigInt.asUintN(Number(randomBits), random);
  const bits =
    (BigInt.asUintN(48, unixMs) << 80n) |
    (7n << 76n) |
    ((free >> 62n) << 64n) |
    (2n << 62n) |
    BigInt.asUintN(62, free);
  const hex = bits.toString(16).padStart(32, '0');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}
