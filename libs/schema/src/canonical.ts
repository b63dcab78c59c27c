import { hash } from 'node:crypto';
import type { Json } from '@toolfleet/contracts';

/**
 * Canonical JSON of RFC 8785: keys sorted by UTF-16 code units at every level, no white space, numbers and strings as
 * ECMAScript writes them. Equal values give equal text, whatever the order in which a model wrote them.
 * @throws TypeError for numbers JSON cannot carry (RFC 8785 section 3.2.2.3)
 */
export function canonicalJson(value: Json): string {
  if (typeof value === 'number' && !Number.isFinite(value)) throw new TypeError('NaN and Infinity have no JSON form');
  if (typeof value === 'string') return quote(value);
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  if (Array.isArray(value)) {
    let text = '[';
    for (let index = 0; index < value.length; index += 1) {
      text += (index === 0 ? '' : ',') + canonicalJson(value[index] ?? null);
    }
    return `${text}]`;
  }
  let text = '{';
  for (const key of Object.keys(value).toSorted()) {
    const member = value[key];
    if (member === undefined) continue; // as JSON.stringify does: an undefined member is an absent one
    text += `${text.length === 1 ? '' : ','}${quote(key)}:${canonicalJson(member)}`;
  }
  return `${text}}`;
}

/** Texts without a character that needs escaping, which are nearly all, are quoted without a call into the runtime. */
const PLAIN = /^[ !#-[\]-~]*$/;

function quote(text: string): string {
  return text.length < 100 && PLAIN.test(text) ? `"${text}"` : JSON.stringify(text);
}

/** SHA-256 in hex. */
export function sha256Hex(text: string): string {
  return hash('sha256', text, 'hex');
}

/** Fingerprint of a JSON value: equal values, equal fingerprint. */
export function fingerprint(value: Json): string {
  return sha256Hex(canonicalJson(value));
}
