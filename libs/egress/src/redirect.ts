import { refusal } from './refusal.js';
import { guardUrl, type GuardedUrl, type UrlPolicy } from './url-guard.js';

/** Statuses that mean "go elsewhere" (RFC 9110 15.4); 304 and 300 are answers. */
const REDIRECTS = new Set([301, 302, 303, 307, 308]);
/** What still goes along to another origin. A list of what may pass: nobody knows the name of every credential header. */
const PUBLIC_HEADERS = new Set(['accept', 'accept-encoding', 'accept-language', 'range', 'user-agent']);
// oxlint-disable-next-line no-control-regex -- control characters are what it refuses
const FORBIDDEN_CHARACTERS = /[\u0000-\u0020\u007f\\]/;

/** True when the answer names another place and the request may be repeated there. */
export function isRedirect(status: number, location: string | undefined): location is string {
  return REDIRECTS.has(status) && location !== undefined;
}

/**
 * The next hop, through all checks again: a relative `Location` is resolved against the URL that answered.
 * @throws ToolError EGRESS_REFUSED with layer `redirect`
 */
export function redirectTarget(location: string, from: GuardedUrl, policy: UrlPolicy): GuardedUrl {
  if (FORBIDDEN_CHARACTERS.test(location)) throw refusal('redirect', 'characters');
  let href: string;
  try {
    href = new URL(location, from.href).href;
  } catch {
    throw refusal('redirect', 'malformed');
  }
  const next = guardUrl(href, policy, 'redirect');
  if (from.protocol === 'https:' && next.protocol === 'http:') throw refusal('redirect', 'downgrade', next.host);
  return next;
}

/** Headers for the next hop: all of them within an origin, only harmless ones across. */
export function redirectHeaders(
  headers: Record<string, string>,
  from: GuardedUrl,
  to: GuardedUrl,
): Record<string, string> {
  if (from.origin === to.origin) return headers;
  return Object.fromEntries(Object.entries(headers).filter(([name]) => PUBLIC_HEADERS.has(name)));
}
