import { type Credential, headerValues, readRawCredential, unauthenticated } from './credential.js';

/** Cookie of a sign-in session. Browsers accept the prefix only with `Secure`, without `Domain` and for all paths. */
export const SESSION_COOKIE = '__Host-toolfleet-session';
/**
 * Header without which a session cookie does not count. Forms, links, pictures and scripts cannot send it, and a script of another
 * origin needs the permission of the gateway (CORS preflight); it gives none.
 */
const SESSION_HEADER = 'x-toolfleet-session';

const SECRET_PATTERN = /^[A-Za-z0-9_-]{43}$/;

/**
 * The credential of a request to the HTTP API: a key or token in its headers, else the session cookie. A cookie is sent by the browser,
 * not by the page that causes the request, so it counts only on requests that a page of this gateway made: with `X-Toolfleet-Session`
 * and, from browsers that say where a request comes from (Fetch Metadata, `Origin`), from the same origin.
 * @throws ToolError UNAUTHENTICATED for a malformed credential, or a session cookie on a request of another origin
 */
export function readRequestCredential(rawHeaders: readonly string[]): Credential | undefined {
  const credential = readRawCredential(rawHeaders);
  if (credential !== undefined) return credential;
  const token = readSessionCookie(rawHeaders);
  if (token === undefined) return undefined;
  if (headerValues(rawHeaders, SESSION_HEADER).length === 0) throw unauthenticated('session_header');
  if (!isSameOrigin(rawHeaders)) throw unauthenticated('session_origin');
  return { kind: 'session', token };
}

/** The secret of the session cookie; undefined if there is none or it has another form. */
export function readSessionCookie(rawHeaders: readonly string[]): string | undefined {
  const [cookies = ''] = headerValues(rawHeaders, 'cookie');
  for (const pair of cookies.split(';')) {
    const [name = '', value = ''] = pair.split('=', 2);
    if (name.trim() === SESSION_COOKIE && SECRET_PATTERN.test(value.trim())) return value.trim();
  }
  return undefined;
}

/** `same-site` is not enough: a page of another host of the company is another origin. */
function isSameOrigin(rawHeaders: readonly string[]): boolean {
  const [site] = headerValues(rawHeaders, 'sec-fetch-site');
  if (site !== undefined) return site === 'same-origin';
  const [origin] = headerValues(rawHeaders, 'origin');
  const [host] = headerValues(rawHeaders, 'host');
  return origin === undefined || URL.parse(origin)?.host === host?.toLowerCase();
}
