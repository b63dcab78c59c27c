import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { SecretBox } from '@toolfleet/service';

const IV_BYTES = 12;
const TAG_BYTES = 16;
const KEY_BYTES = 32;

/**
 * Seals the bodies of calls with AES-256-GCM, each tenant's with keys of that tenant. The keys are stored sealed with
 * `RECORDS_SECRET_KEY`: the store alone opens nothing, and without its key a body can never be read again.
 */
export class BodySeal {
  readonly #box: SecretBox;

  constructor(secretKey: string) {
    this.#box = new SecretBox(secretKey);
  }

  /** A new key, and how it is stored. */
  newKey(tenantId: string): { key: Buffer; sealed: string } {
    const key = randomBytes(KEY_BYTES);
    return { key, sealed: this.#box.seal(key.toString('base64'), context(tenantId)) };
  }

  /** A stored key; undefined when it was sealed with another `RECORDS_SECRET_KEY`. */
  openKey(sealed: string, tenantId: string): Buffer | undefined {
    try {
      return Buffer.from(this.#box.open(sealed, context(tenantId)), 'base64');
    } catch {
      return undefined;
    }
  }
}

const context = (tenantId: string): string => `key of bodies/${tenantId}`;

/** Seals a text. It opens only with the same `place`, so that a stored body cannot be moved to another call. */
export function sealBody(key: Buffer, text: string, place: string): Buffer {
  const iv = randomBytes(IV_BYTES);
  const cipher = createCipheriv('aes-256-gcm', key, iv).setAAD(Buffer.from(place));
  const sealed = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
  return Buffer.concat([iv, cipher.getAuthTag(), sealed]);
}

/** @throws Error when it was changed, or sealed with another key or for another place */
export function openBody(key: Buffer, sealed: Uint8Array, place: string): string {
  const decipher = createDecipheriv('aes-256-gcm', key, sealed.subarray(0, IV_BYTES), { authTagLength: TAG_BYTES });
  decipher.setAAD(Buffer.from(place)).setAuthTag(sealed.subarray(IV_BYTES, IV_BYTES + TAG_BYTES));
  return Buffer.concat([decipher.update(sealed.subarray(IV_BYTES + TAG_BYTES)), decipher.final()]).toString('utf8');
}
