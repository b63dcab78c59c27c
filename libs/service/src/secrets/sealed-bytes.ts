import { createCipheriv, createDecipheriv, createSecretKey, hkdfSync, randomBytes, type KeyObject } from 'node:crypto';

const CIPHER = 'aes-256-gcm';
export const IV_BYTES = 12;
const TAG_BYTES = 16;
const KEY_BYTES = 32;
/** Bytes of a sealed text beyond those of the text. */
export const OVERHEAD_BYTES = IV_BYTES + TAG_BYTES;

/**
 * A key for one purpose. Keys are objects because Node 24 takes 15 µs to read one from bytes, twice the time of a seal.
 * @param secret of any length
 */
export const deriveKey = (secret: string, purpose: string): KeyObject =>
  createSecretKey(new Uint8Array(hkdfSync('sha256', secret, '', purpose, KEY_BYTES)));

/**
 * Seals a text with AES-256-GCM: IV, tag, ciphertext. It opens only with the same `place`, so that a sealed value that is copied to
 * another row cannot be read there.
 * @param key 32 bytes
 * @param iv 12 bytes that no other text is sealed with under this key; random by default
 */
export function sealBytes(key: KeyObject, text: string, place: string, iv: Buffer = randomBytes(IV_BYTES)): Buffer {
  const cipher = createCipheriv(CIPHER, key, iv).setAAD(Buffer.from(place));
  const sealed = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
  return Buffer.concat([iv, cipher.getAuthTag(), sealed]);
}

/** @throws Error when the value was changed, or sealed with another key or for another place */
export function openBytes(key: KeyObject, sealed: Uint8Array, place: string): string {
  const decipher = createDecipheriv(CIPHER, key, sealed.subarray(0, IV_BYTES), { authTagLength: TAG_BYTES });
  decipher.setAAD(Buffer.from(place)).setAuthTag(sealed.subarray(IV_BYTES, IV_BYTES + TAG_BYTES));
  return Buffer.concat([decipher.update(sealed.subarray(IV_BYTES + TAG_BYTES)), decipher.final()]).toString('utf8');
}
