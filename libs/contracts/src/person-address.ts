/** Hosts of this computer, where `http:` reaches no network. */
const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/;

/**
 * Why a person is not asked to open an address; undefined for one that may be opened: `https:`, or `http:` on this computer, without a user
 * name that could pass for the host. Every address of another party that reaches a person passes here: pages that MCP servers ask to open,
 * authorization endpoints, logout pages. A browser or client would run `javascript:` and `data:`, and read `file:`.
 */
export function addressFault(address: string): string | undefined {
  const url = URL.parse(address);
  if (!url) return 'it is not an absolute URL';
  if (url.username !== '' || url.password !== '') return 'it has a user name';
  if (url.protocol === 'https:' || (url.protocol === 'http:' && LOOPBACK.test(url.hostname))) return undefined;
  return `its scheme is ${url.protocol.slice(0, -1)}; it must be https, or http on this computer`;
}
