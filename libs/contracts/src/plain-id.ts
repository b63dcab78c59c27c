/** Control characters, line and paragraph separators, unpaired surrogates: what no log line, key or ledger row may carry. */
const UNSAFE = /[\p{Cc}\p{Zl}\p{Zp}\p{Cs}]/u;
/** Longest id in UTF-16 units, as the ledger and the budget store them. */
export const MAX_ID_LENGTH = 256;

/** True when a text has characters that no id may have. */
export function hasUnsafeCharacters(text: string): boolean {
  return UNSAFE.test(text);
}

/** True for texts that may be an id anywhere in the fleet: 1 to `MAX_ID_LENGTH` characters without control characters. */
export function isPlainId(value: unknown): value is string {
  return typeof value === 'string' && value.length > 0 && value.length <= MAX_ID_LENGTH && !hasUnsafeCharacters(value);
}
