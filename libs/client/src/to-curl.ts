import type { JsonObject } from '@toolfleet/contracts';

/**
 * A shell command that makes a call. The key is read from `TOOLFLEET_API_KEY`, as fleetctl does, so that a copied command
 * holds no secret.
 * @param origin of the gateway, such as `https://fleet.example`
 */
export function toCurl(origin: string, tool: string, args: JsonObject): string {
  return [
    `curl -s ${quoted(`${origin}/api/v1/tools/${encodeURIComponent(tool)}/execute`)} \\`,
    '  -H "Authorization: Bearer $TOOLFLEET_API_KEY" \\',
    "  -H 'Content-Type: application/json' \\",
    `  -d ${quoted(JSON.stringify({ arguments: args }))}`,
  ].join('\n');
}

/** A text as one word of a POSIX shell. */
const quoted = (text: string): string => `'${text.replaceAll("'", String.raw`'\''`)}'`;
