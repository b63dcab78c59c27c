import { hasUnsafeCharacters } from '@toolfleet/contracts/text';

/** Session ids of MCP contain the name in hex, and have at most 255 characters. */
const MAX_BYTES = 64;

/**
 * The name that a program gives itself (`claude-code/2.1`), as records of calls name it. Anyone can claim any name.
 * @returns its first 64 bytes; undefined for an empty name, and for one with control characters
 */
export function toClientName(text: string): string | undefined {
  const name = Buffer.from(text.trim())
    .subarray(0, MAX_BYTES)
    .toString()
    .replace(/\uFFFD+$/, '');
  return name === '' || hasUnsafeCharacters(name) ? undefined : name;
}

/** The first product of a `User-Agent`: `curl/8.5.0` of `curl/8.5.0 libcurl/8.5.0`. */
export function readUserAgent(header: string | undefined): string | undefined {
  const [product] = header?.trim().split(/[\s(]/, 1) ?? [];
  return product === undefined ? undefined : toClientName(product);
}
