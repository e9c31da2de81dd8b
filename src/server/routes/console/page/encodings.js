// Writes IDs in each encoding, as crates/core/src/encoding does. The server parses texts.
import { t } from './i18n.js';

const DIGITS = '0123456789';
const LOWER = 'abcdefghijklmnopqrstuvwxyz';
const UPPER = LOWER.toUpperCase();
const ALPHABETS = {
  base32: DIGITS + 'ABCDEFGHJKMNPQRSTVWXYZ',
  base36: DIGITS + LOWER,
  base62: DIGITS + LOWER + UPPER,
  'base62-sorted': DIGITS + UPPER + LOWER,
};
const BASE64URL = UPPER + LOWER + DIGITS + '-_';

export const ENCODINGS = ['decimal', 'hex', 'base32', 'base36', 'base62', 'base62-sorted', 'base64url', 'friendly', 'uuid7', 'typeid'];

// The encodings that are written here; the server alone writes UUIDs, which have random bits.
const WRITTEN = ENCODINGS.slice(0, -3);

// The name of an encoding, with a warning where the texts of two IDs may differ only in case.
export const label = (name) => (/^base6/.test(name) ? t('{name} (case matters)', { name }) : name);

function radix(id, alphabet) {
  const base = BigInt(alphabet.length);
  let text = '';
  do {
    text = alphabet[Number(id % base)] + text;
    id /= base;
  } while (id);
  return text;
}

// Encodes 8 bytes, most significant first: 10 digits of 6 bits, and a last one of 4 bits and two
// zeros.
function base64url(id) {
  let text = BASE64URL[Number((id & 15n) << 2n)];
  id >>= 4n;
  for (let digit = 0; digit < 10; digit += 1, id >>= 6n) text = BASE64URL[Number(id & 63n)] + text;
  return text;
}

export function encode(id, encoding) {
  if (encoding === 'hex') return id.toString(16).padStart(16, '0');
  if (encoding === 'base64url') return base64url(id);
  return encoding === 'decimal' ? id.toString() : radix(id, ALPHABETS[encoding]);
}

// Returns an ID of `/parse` in every encoding that it has, as [name, text].
export function everyEncoding(parsed, hasLayout) {
  const id = BigInt(parsed.id);
  const texts = WRITTEN.map((name) => [name, encode(id, name)]);
  if (hasLayout && !parsed.wraps) {
    const { timestamp, data_center, worker_id, lane, sequence, reserved } = parsed;
    const instant = timestamp.slice(1).replace(/[-:]/g, '');
    texts.push(['friendly', [timestamp[0] + instant, data_center, worker_id, lane, sequence, reserved].join('-')]);
  }
  return texts;
}

// Returns the only encoding that a text can be in, or throws an error that asks for it.
export function guess(text) {
  if (/^\d{1,19}$/.test(text)) return 'decimal';
  if (/^[0-9a-f]{16}$/i.test(text)) return 'hex';
  if (/^[-+]?\d{8,}T\d{6}\.\d{3}Z(-\d+){5}$/.test(text)) return 'friendly';
  if (/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text)) return 'uuid7';
  if (/^([a-z_]+_)?[0-7][0-9a-hjkmnp-tv-z]{25}$/.test(text)) return 'typeid';
  // An ID with the prefix of its code.
  if (/^[A-Za-z0-9._:-]*[._:-]\d{1,19}$/.test(text)) return 'decimal';
  throw { detail: t('could be base32, base36, base62, base62-sorted or base64url: choose the encoding') };
}
