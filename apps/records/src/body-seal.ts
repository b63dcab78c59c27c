import { randomBytes } from 'node:crypto';
import { SecretBox } from '@toolfleet/service';

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
