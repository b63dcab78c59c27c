/**
 * Results of MCP servers that are pinned with their definition, because a server could change them after the approval: texts of prompts
 * without arguments, and entries of skills. mcp-executor refuses a result with another digest.
 */
import { hash } from 'node:crypto';
import { isJsonObject, type Json, type JsonObject } from '@toolfleet/base/json';

/** Key in `_meta` of a listed prompt of the digest of its messages. */
export const RESULT_DIGEST = 'io.toolfleet/result-digest';

/** Whether the text of a listed prompt depends on arguments: then every text is another one, and only its listing is pinned. */
export function takesArguments({ arguments: declared }: JsonObject): boolean {
  return Array.isArray(declared) && declared.length > 0;
}

/** SHA-256 of a value in hex, whatever the order of members. Addresses are the server's. */
export function resultDigest(result: Json): string {
  const inOrder = (_key: string, value: Json): Json =>
    isJsonObject(value) ? Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1))) : value;
  return hash('sha256', JSON.stringify(result, inOrder), 'hex');
}
