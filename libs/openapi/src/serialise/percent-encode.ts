/** Percent-encodes everything outside RFC 3986 `unreserved`; a space is `%20`. Lone surrogates become U+FFFD. */
export function encodeUnreserved(text: string): string {
  return encodeURIComponent(text.toWellFormed()).replace(/[!'()*]/g, hex);
}

/**
 * `allowReserved`: keeps reserved characters and existing `%XX` (RFC 6570 section 3.2.3), except `# [ ] & = +`, which
 * would end the value or the query (OpenAPI 3.1.1 appendix C).
 */
export function encodeAllowingReserved(text: string): string {
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
