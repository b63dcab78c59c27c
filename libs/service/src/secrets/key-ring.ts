import type { KeyObject } from 'node:crypto';
import type { ConfigFault } from '../config/define-config.js';
import { deriveKey, openBytes, sealBytes } from './sealed-bytes.js';
import { MIN_SECRET_KEY_LENGTH } from './secret-box.js';

const KEY_ID = /^[A-Za-z0-9-]{1,32}$/;

/**
 * Keys with ids: the first seals, all open. A key is replaced in three steps: put a new one first, seal all values again that begin
 * with another id, and remove the old one. Sealed values are `<key id>.<base64url>`.
 */
export class KeyRing {
  readonly #keys: ReadonlyMap<string, KeyObject>;
  readonly #texts: readonly string[];
  /** Id of the key that seals. */
  readonly current: string;

  /**
   * @param text `<id>:<key>` separated by commas
   * @throws RangeError with the rule that an entry breaks; the message has no key
   */
  constructor(text: string) {
    const entries = readKeys(text);
    this.current = entries[0]!.id;
    this.#texts = entries.map(({ key }) => key);
    this.#keys = new Map(entries.map(({ id, key }) => [id, deriveKey(key, 'toolfleet key ring')]));
  }

  /** Secrets for one purpose, such as the signing of cookies, in the order of the keys; the same in every process. */
  derive(purpose: string): string[] {
    return this.#texts.map((key) => deriveKey(key, `toolfleet ${purpose}`).export().toString('base64url'));
  }

  /** Seals a text for one place, such as the id of its row. */
  seal(text: string, place: string): string {
    const { current } = this;
    return `${current}.${sealBytes(this.#keys.get(current)!, text, `${current}/${place}`).toString('base64url')}`;
  }

  /** @throws Error when the value was changed, belongs to another place, or its key is not in the ring */
  open(sealed: string, place: string): string {
    const [id = '', body = ''] = sealed.split('.', 2);
    const key = this.#keys.get(id);
    if (!key) throw new Error(`a sealed value needs the key "${id.slice(0, 32)}", which is not configured`);
    try {
      return openBytes(key, Buffer.from(body, 'base64url'), `${id}/${place}`);
    } catch {
      throw new Error(
        `a value sealed with the key "${id}" cannot be opened: the key is another one, or it was changed`,
      );
    }
  }
}

function readKeys(text: string): { id: string; key: string }[] {
  const entries = text.split(',').map((entry, index) => {
    const colon = entry.indexOf(':');
    const id = entry.slice(0, Math.max(0, colon)).trim();
    const key = entry.slice(colon + 1).trim();
    if (!KEY_ID.test(id))
      throw new RangeError(`entry ${index + 1} must begin with an id of letters, digits and hyphens, and a colon`);
    if (key.length < MIN_SECRET_KEY_LENGTH)
      throw new RangeError(`the key "${id}" must have at least ${MIN_SECRET_KEY_LENGTH} characters, has ${key.length}`);
    return { id, key };
  });
  const twice = entries.find(({ id }, index) => entries.findIndex((other) => other.id === id) < index);
  if (twice) throw new RangeError(`the id "${twice.id}" occurs twice`);
  return entries;
}

/** The fault of a setting that holds the keys of a ring. */
export function keyRingFaults(key: string, text: string): ConfigFault[] {
  try {
    readKeys(text);
    return [];
  } catch (error) {
    return [
      {
        key,
        message: `is invalid: ${(error as Error).message}`,
        remedy: 'write <id>:<key>, separated by commas, the key that seals first',
      },
    ];
  }
}
