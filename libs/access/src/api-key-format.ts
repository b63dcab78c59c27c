import { randomBytes } from 'node:crypto';
import { crc32 } from 'node:zlib';

/**
 * `tf_<environment>_<8-character id>_<32 random bytes in base62>_<CRC-32>`. The id is public, the secret has 256 random bits.
 * The checksum lets secret scanners and the gateway recognize a typo without a lookup.
 */
const KEY_PATTERN = /^tf_([a-z0-9]{1,16})_([0-9A-Za-z]{8})_([0-9A-Za-z]{43})_([0-9A-Za-z]{6})$/;
const ENVIRONMENT_PATTERN = /^[a-z0-9]{1,16}$/;
const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/** Prefix of every API key. */
export const KEY_PREFIX = 'tf_';

/** A well-formed key in parts. `signed` is the part that the stored HMAC covers: everything but the checksum. */
interface ParsedKey {
  id: string;
  signed: string;
}

/** Parses a key. @returns null if its form or checksum is wrong */
export function parseKey(token: string): ParsedKey | null {
  const match = KEY_PATTERN.exec(token);
  if (!match) return null;
  const signed = token.slice(0, -7);
  if (checksum(signed) !== match[4]) return null;
  return { id: match[2]!, signed };
}

/** Generates a key. @param environment 1 to 16 lower-case letters and digits, such as `prod` @throws RangeError */
export function generateKey(environment: string): ParsedKey & { token: string } {
  if (!ENVIRONMENT_PATTERN.test(environment))
    throw new RangeError(`environment must be 1 to 16 lower-case letters or digits, not '${environment}'`);
  const id = randomId();
  const signed = `${KEY_PREFIX}${environment}_${id}_${base62(randomBytes(32), 43)}`;
  return { id, signed, token: `${signed}_${checksum(signed)}` };
}

/** 8 uniformly distributed characters. Bytes above the largest multiple of 62 are dropped; they would favor some characters. */
function randomId(): string {
  let id = '';
  while (id.length < 8) {
    for (const byte of randomBytes(16)) if (byte < 248 && id.length < 8) id += ALPHABET[byte % 62];
  }
  return id;
}

function checksum(text: string): string {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(crc32(text));
  return base62(bytes, 6);
}

/** Big-endian number in base 62, padded to `width` digits (43 hold 256 bits, 6 hold 32). */
function base62(bytes: Buffer, width: number): string {
  let rest = BigInt(`0x${bytes.toString('hex')}`);
  let digits = '';
  for (let i = 0; i < width; i++) {
    digits = ALPHABET[Number(rest % 62n)] + digits;
    rest /= 62n;
  }
  return digits;
}
