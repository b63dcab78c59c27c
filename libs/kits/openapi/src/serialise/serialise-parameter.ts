import { isJsonObject, type Json } from '@toolfleet/base';
import { toExactJson } from '@toolfleet/base/json-text';

/** Serialisation fields of a Parameter or Encoding Object, with defaults resolved. */
interface Styling {
  style: string;
  explode: boolean;
  allow_reserved?: boolean;
}

/** Default style of a place (OpenAPI 3.1.1, Parameter Object). */
export function defaultStyle(place: string): string {
  return place === 'query' || place === 'cookie' ? 'form' : 'simple';
}

/** Formats a primitive. Null is the empty string; values nested deeper than a style supports become JSON. */
export function toText(value: Json): string {
  if (value === null) return '';
  return typeof value === 'object' ? toExactJson(value) : String(value);
}

/**
 * Pairs of a query, urlencoded body or cookie, already encoded. Empty arrays and objects give no pair (RFC 6570:
 * undefined); delimiters between items stay as the style table of OpenAPI 3.1.1 shows them, inside a value they are encoded.
 */
export function queryPairs(name: string, value: Json, styling: Styling): [string, string][] {
  const encode = (item: Json) =>
    styling.allow_reserved ? encodeAllowingReserved(toText(item)) : encodeUnreserved(toText(item));
  const key = encodeUnreserved(name);
  if (Array.isArray(value)) {
    if (value.length === 0) return [];
    if (styling.explode || styling.style === 'deepObject') return value.map((item) => [key, encode(item)]);
    return [[key, value.map(encode).join(delimiter(styling.style))]];
  }
  if (!isJsonObject(value)) return [[key, encode(value)]];
  const entries = Object.entries(value);
  if (entries.length === 0) return [];
  if (styling.style === 'deepObject') return deepPairs(key, value, encode);
  if (styling.explode) return entries.map(([member, item]) => [encodeUnreserved(member), encode(item)]);
  const flat = entries.flatMap(([member, item]) => [encodeUnreserved(member), encode(item)]);
  return [[key, flat.join(delimiter(styling.style))]];
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

function delimiter(style: string): string {
  if (style === 'spaceDelimited') return '%20';
  return style === 'pipeDelimited' ? '%7C' : ',';
}

/** Expansion of one path expression (RFC 6570 section 3.2: simple, label `.`, matrix `;`). */
export function pathSegment(name: string, value: Json, styling: Styling, encode = encodeUnreserved): string {
  const { style, explode } = styling;
  const prefix = style === 'label' ? '.' : style === 'matrix' ? ';' : '';
  const separator = explode && prefix !== '' ? prefix : ',';
  const key = encodeUnreserved(name);
  const text = (item: Json) => encode(toText(item));
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
  if (Array.isArray(value)) return value.length > 0 ? value.map(toText).join(',') : undefined;
  if (!isJsonObject(value)) return toText(value);
  const entries = Object.entries(value);
  if (entries.length === 0) return undefined;
  return entries
    .map(([member, item]) => (explode ? `${member}=${toText(item)}` : `${member},${toText(item)}`))
    .join(',');
}

/** Percent-encodes everything outside RFC 3986 `unreserved`; a space is `%20`. Lone surrogates become U+FFFD. */
export function encodeUnreserved(text: string): string {
  return encodeURIComponent(text.toWellFormed()).replace(/[!'()*]/g, hex);
}

/**
 * `allowReserved`: keeps reserved characters and existing `%XX` (RFC 6570 section 3.2.3), except `# [ ] & = +`, which
 * would end the value or the query (OpenAPI 3.1.1 appendix C).
 */
function encodeAllowingReserved(text: string): string {
  return text.replace(/%[0-9A-Fa-f]{2}|[\s\S]/gu, (piece) => {
    if (piece.length === 3 && piece.startsWith('%')) return piece;
    return /^[A-Za-z0-9\-._~:/?@!$'()*,;]$/.test(piece) ? piece : encodeUnreserved(piece);
  });
}

/** `{+name}` of RFC 6570 in a path: slashes and other path characters stay, `?` and `#` never. */
export function encodePathReserved(text: string): string {
  return text.replace(/%[0-9A-Fa-f]{2}|[\s\S]/gu, (piece) => {
    if (piece.length === 3 && piece.startsWith('%')) return piece;
    return /^[A-Za-z0-9\-._~:/@!$&'()*+,;=]$/.test(piece) ? piece : encodeUnreserved(piece);
  });
}

/** Literal text of a path template: legal characters of RFC 3986 `pchar` stay, the rest is encoded. */
export function encodePathLiteral(text: string): string {
  return encodePathReserved(text);
}

/** Literal text after `?` in a path template. */
export function encodeQueryLiteral(text: string): string {
  return text.replace(/%[0-9A-Fa-f]{2}|[\s\S]/gu, (piece) => {
    if (piece.length === 3 && piece.startsWith('%')) return piece;
    return /^[A-Za-z0-9\-._~:/?@!$&'()*+,;=]$/.test(piece) ? piece : encodeUnreserved(piece);
  });
}

function hex(character: string): string {
  return `%${character.charCodeAt(0).toString(16).toUpperCase()}`;
}
