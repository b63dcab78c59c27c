import { createHmac, type KeyObject } from 'node:crypto';
import { deriveKey, IV_BYTES, openBytes, OVERHEAD_BYTES, sealBytes } from './sealed-bytes.js';

/** Start of every sealed value; the number is the format. */
const MARK = 'sealed:v1:';
/** Shortest `REGISTRY_SECRET_KEY` that is accepted, in characters. */
export const MIN_SECRET_KEY_LENGTH = 32;

/** True for values made by `SecretBox.seal`. */
export function isSealed(value: unknown): value is string {
  return typeof value === 'string' && value.startsWith(MARK);
}

/**
 * Encrypts literal secrets of registrations, so that they are unreadable in the registry, in Redis and on NATS: AES-256-GCM with a key
 * derived from `REGISTRY_SECRET_KEY`. The registry seals; the executor opens right before it connects. The context (kind, name and tenant
 * of the registration, such as `openapi/github@acme`) is authenticated: a sealed value that is copied into another registration, or
 * into one of the same name of another tenant, does not open there.
 *
 * The nonce is derived from text and context (as in RFC 8452): sealing the same secret again gives the same value, so that a repeated
 * registration keeps its revision. Equal secrets of one registration can therefore be recognized as equal.
 */
export class SecretBox {
  private readonly key: KeyObject;
  private readonly nonceKey: KeyObject;

  constructor(secretKey: string) {
    if (secretKey.length < MIN_SECRET_KEY_LENGTH) {
      throw new RangeError(`the secret key must have at least ${MIN_SECRET_KEY_LENGTH} characters`);
    }
    this.key = deriveKey(secretKey, 'toolfleet registry secrets');
    this.nonceKey = deriveKey(secretKey, 'toolfleet registry nonces');
  }

  /** Seals a text for one context. */
  seal(text: string, context: string): string {
    const mac = createHmac('sha256', this.nonceKey).update(`${context.length}:${context}`).update(text, 'utf8');
    const iv = mac.digest().subarray(0, IV_BYTES);
    return MARK + sealBytes(this.key, text, context, iv).toString('base64url');
  }

  /** Opens a sealed text. @throws Error when it was changed, belongs to another context, or was sealed with another key. */
  open(sealed: string, context: string): string {
    const bytes = Buffer.from(sealed.slice(MARK.length), 'base64url');
    if (!isSealed(sealed) || bytes.length < OVERHEAD_BYTES) throw new Error('not a sealed secret');
    try {
      return openBytes(this.key, bytes, context);
    } catch {
      throw new Error('a sealed secret cannot be opened: it was sealed with another key or changed');
    }
  }
}

/**
 * Context under which the secrets of a registration are sealed. `source` is the name of its source, `github` or
 * `github@acme`; the binding carries it to the executor.
 */
export function secretContext(kind: 'openapi' | 'mcp', source: string): string {
  return `${kind}/${source}`;
}

/** True when a value, or anything inside it, is sealed. */
export function holdsSealed(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return isSealed(value);
  return Object.values(value).some(holdsSealed);
}
