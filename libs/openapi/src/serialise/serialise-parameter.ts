import { isJsonObject, type Json } from '@toolfleet/contracts';
import { encodeAllowingReserved, encodeUnreserved } from './percent-encode.js';

/** How a value is written: the fields of a Parameter or Encoding Object that matter, defaults resolved. */
export interface Styling {
  style: string;
  explode: boolean;
  allow_reserved?: boolean;
}

/** Default style of a place (OpenAPI 3.1.1, Parameter Object). */
export function defaultStyle(place: string): string {
  return place === 'query' || place === 'cookie' ? 'form' : 'simple';
}

/** Text of a primitive. Null is the empty string; a value nested deeper than a style can say is JSON. */
export function textOf(value: Json): string {
  if (value === null) return '';
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

/**
 * Pairs of a query, urlencoded body or cookie, already encoded. Empty arrays and objects give no pair (RFC 6570:
 * undefined); delimiters between items stay as the style table of OpenAPI 3.1.1 shows them, inside a value they are encoded.
 */
export function queryPairs(name: string, value: Json, styling: Styling): [string, string][] {
  const encode = (item: Json) =>
    styling.allow_reserved ? encodeAllowingReserved(textOf(item)) : encodeUnreserved(textOf(item));
  const key = encodeUnreserved(name);
  if (Array.isArray(value)) {
    if (value.length === 0) return [];
    if (styling.explode || styling.style === 'deepObject') return value.map((item) => [key, encode(item)]);
    return [[key, value.map(encode).join(delimiterOf(styling.style))]];
  }
  if (!isJsonObject(value)) return [[key, encode(value)]];
  const entries = Object.entries(value);
  if (entries.length === 0) return [];
  if (styling.style === 'deepObject') return deepPairs(key, value, encode);
  if (styling.explode) return entries.map(([member, item]) => [encodeUnreserved(member), encode(item)]);
  const flat = entries.flatMap(([member, item]) => [encodeUnreserved(member), encode(item)]);
  return [[key, flat.join(delimiterOf(styling.style))]];
}

/** Beyond the specification: objects nest as `a[b]`, arrays repeat the key, as widely understood. */
function deepPairs(key: string, value: Json, encode: (item: Json) => string): [string, string][] {
  if (Array.isArray(value)) {
    return value.flatMap((item) =>
      isJsonObject(item) ? deepPairs(key, item, encode) : [[key, encode(item)] as [string, string]],
    );
  }
  if (!isJsonObject(value)) return [[key, encode(value)]];
  return Object.entries(value).flatMap(([member, item]) =>
    deepPairs(`${key}%5B${encodeUnreserved(member)}%5D`, item, encode),
  );
}

function delimiterOf(style: string): string {
  if (style === 'spaceDelimited') return '%20';
  return style === 'pipeDelimited' ? '%7C' : ',';
}

/** Expansion of one path expression (RFC 6570 section 3.2: simple, label `.`, matrix `;`). */
export function pathSegment(name: string, value: Json, styling: Styling, encode = encodeUnreserved): string {
  const { style, explode } = styling;
  const prefix = style === 'label' ? '.' : style === 'matrix' ? ';' : '';
  const separator = explode && prefix !== '' ? prefix : ',';
  const key = encodeUnreserved(name);
  const text = (item: Json) => encode(textOf(item));
  if (Array.isArray(value)) {
    if (value.length === 0) return '';
    if (style !== 'matrix') return prefix + value.map(text).join(separator);
    return explode ? value.map((item) => `;${key}=${text(item)}`).join('') : `;${key}=${value.map(text).join(',')}`;
  }
  if (isJsonObject(value)) {
    const entries = Object.entries(value);
    if (entries.length === 0) return '';
    const flat = entries.flatMap(([member, item]) =>
      explode ? [`${encodeUnreserved(member)}=${text(item)}`] : [encodeUnreserved(member), text(item)],
    );
    return style === 'matrix' && !explode ? `;${key}=${flat.join(',')}` : prefix + flat.join(separator);
  }
  const only = text(value);
  if (style !== 'matrix') return prefix + only;
  return only === '' ? `;${key}` : `;${key}=${only}`;
}

/** Value of a header, raw (OpenAPI 3.1.1 appendix D); undefined for empty arrays and objects. */
export function headerValue(value: Json, explode: boolean): string | undefined {
  if (Array.isArray(value)) return value.length > 0 ? value.map(textOf).join(',') : undefined;
  if (!isJsonObject(value)) return textOf(value);
  const entries = Object.entries(value);
  if (entries.length === 0) return undefined;
  return entries
    .map(([member, item]) => (explode ? `${member}=${textOf(item)}` : `${member},${textOf(item)}`))
    .join(',');
}
