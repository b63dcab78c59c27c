/**
 * Addresses of the resources of MCP servers, as callers of the fleet see them. Two servers may have resources with the same address, so
 * the fleet inserts an authority that names the server. The scheme stays, so that clients recognize `file:` or `ui:`, and a template
 * expands as before:
 *
 *     test://template/{id}/data   <->   test://mcp-0f3a5c7e9b1d2f40/template/{id}/data
 *     urn:isbn:0451450523         <->   urn://mcp-0f3a5c7e9b1d2f40.opaque/isbn:0451450523
 *     javascript:alert(1)         <->   x-javascript://mcp-0f3a5c7e9b1d2f40.opaque/alert(1)
 */

/** Schemes that run a script where a link is opened. Their addresses in the fleet begin with `x-`, as do those that have it already. */
const SCRIPT = /^(x-)*(?:javascript|vbscript):/i;
const ESCAPED_SCRIPT = /^x-(?=(?:x-)*(?:javascript|vbscript):)/i;
const SCHEME = /^([A-Za-z][A-Za-z0-9+.-]*):(\/\/)?/;
const ADDRESS = /^([A-Za-z][A-Za-z0-9+.-]*:)\/\/(mcp-[0-9a-f]{16})(\.opaque)?\/(.*)$/s;

/** A resource of a server. */
interface ServerResource {
  authority: string;
  /** The address at the server. */
  uri: string;
}

/**
 * The address of a server's resource in the fleet, for every text that begins with a scheme; others stay as they are. An address that
 * already has an authority of the fleet gets another one, so no server can give its resources the authority of a different server.
 * @param authority of the server (`mcp-` and 16 hex digits); undefined: addresses of this server are not changed, but for scripts
 */
export function toFleetAddress(uri: string, authority: string | undefined): string {
  const scheme = SCHEME.exec(uri);
  const safe = SCRIPT.test(uri) ? 'x-' : '';
  if (authority === undefined || !scheme) return safe + uri;
  const [prefix, name, slashes] = scheme;
  return `${safe}${name}://${authority}${slashes === undefined ? '.opaque' : ''}/${uri.slice(prefix.length)}`;
}

/** Reverses `toFleetAddress`; undefined for an address without an authority of the fleet. */
export function readFleetAddress(address: string): ServerResource | undefined {
  const [, scheme, authority, opaque, rest] = ADDRESS.exec(address) ?? [];
  if (scheme === undefined || authority === undefined) return undefined;
  return { authority, uri: `${scheme.replace(ESCAPED_SCRIPT, '')}${opaque === undefined ? '//' : ''}${rest}` };
}
