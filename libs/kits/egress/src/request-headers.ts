import { refusal } from './errors.js';
import type { GuardedUrl } from './url-guard.js';

/** The client sets these itself and drops a caller's value. */
const OWN = new Set(['content-length', 'connection', 'keep-alive']);
/** Headers that change the destination or framing of a request (request smuggling, virtual host confusion). */
const REFUSED = new Set([
  'host',
  'transfer-encoding',
  'te',
  'trailer',
  'upgrade',
  'expect',
  'proxy-authorization',
  'proxy-connection',
]);
const NAME = /^[!#$%&'*+.^_`|~0-9a-z-]+$/;
// oxlint-disable-next-line no-control-regex -- RFC 9110 5.5: no control characters but tab
const VALUE = /^[\t\u0020-\u007e\u0080-\u00ff]*$/;

/**
 * Validates the headers of a request and converts their names to lower case.
 * @throws CodedError EGRESS_REFUSED for an invalid name or value (header injection), and for `Host` and framing headers
 */
export function requestHeaders(headers: Readonly<Record<string, string>>): Record<string, string> {
  const clean: [name: string, value: string][] = [];
  for (const [rawName, value] of Object.entries(headers)) {
    const name = rawName.toLowerCase();
    if (OWN.has(name)) continue;
    if (REFUSED.has(name) || !NAME.test(name) || !VALUE.test(value)) throw refusal('url', 'header');
    clean.push([name, value]);
  }
  return Object.fromEntries(clean);
}

/** Headers sent on to another origin. An allowlist, because credential headers can have any name. */
const PUBLIC_HEADERS = new Set(['accept', 'accept-encoding', 'accept-language', 'range', 'user-agent']);

/** The headers for a redirect: all of them within an origin, only public ones to another origin. */
export function redirectHeaders(
  headers: Record<string, string>,
  from: GuardedUrl,
  to: GuardedUrl,
): Record<string, string> {
  if (from.origin === to.origin) return headers;
  return Object.fromEntries(Object.entries(headers).filter(([name]) => PUBLIC_HEADERS.has(name)));
}
