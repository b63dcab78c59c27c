/** Requests and answers of browsers and OAuth clients, as gateways pass them on. */
import { createHash } from 'node:crypto';
import { CATALOGUE, isToolError, toToolError } from '@toolfleet/contracts';
import type { IdentityHttp, IdentityHttpReply } from '@toolfleet/contracts/sign-in';
import { shownLine } from '@toolfleet/contracts/text';
import type { KeyRing } from '@toolfleet/service';

/** Characters of a text of others in a page: a longer one would push what follows out of sight. */
const MAX_FOREIGN = 500;

/** A request with its parts read. */
export interface WebRequest {
  /** Public address of the gateway, without a path. */
  origin: string;
  method: string;
  url: URL;
  /** Names in lower case; of a repeated name the last value. */
  headers: ReadonlyMap<string, string>;
  cookies: ReadonlyMap<string, string>;
  body: string;
}

/** Reads a request. Of two cookies with the same name the first, with the longer path, counts (RFC 6265 section 5.4). */
export function readWebRequest({ origin, method, url, headers, body = '' }: IdentityHttp): WebRequest {
  const byName = new Map(headers.map(([name = '', value = '']) => [name.toLowerCase(), value]));
  const cookies = new Map<string, string>();
  for (const pair of (byName.get('cookie') ?? '').split(';')) {
    const [name = '', ...value] = pair.split('=');
    if (name.trim() !== '' && !cookies.has(name.trim())) cookies.set(name.trim(), value.join('=').trim());
  }
  return { origin, method, url: new URL(url, origin), headers: byName, cookies, body };
}

/** Sends the browser on. 303: with GET, whatever the request was. */
export function redirect(to: string, cookies: readonly string[] = []): IdentityHttpReply {
  return { status: 303, headers: [['location', to], ...withCookies(cookies), ...PRIVATE], body: '' };
}

/** Addresses of sign-ins have codes and states, so no other origin sees them. With `no-referrer`, the origin of forms would be `null`. */
const PRIVATE: [string, string][] = [
  ['cache-control', 'no-store'],
  ['referrer-policy', 'same-origin'],
];
const withCookies = (cookies: readonly string[]): [string, string][] => cookies.map((cookie) => ['set-cookie', cookie]);

/**
 * A `Set-Cookie` of this host alone; without a value it removes the cookie.
 * @param site `Lax`: other sites bring the browser back by a link. `Strict`: none can make a browser send it
 */
export const cookie = (name: string, value: string, seconds: number, site: 'Lax' | 'Strict' = 'Lax'): string =>
  `${name}=${value}; Path=/; Secure; HttpOnly; SameSite=${site}; Max-Age=${seconds}`;

/** The value that a cookie holds sealed; undefined without the cookie, and for one that was not sealed for this place. */
export function openCookie<T>(
  { cookies }: Pick<WebRequest, 'cookies'>,
  name: string,
  keys: Pick<KeyRing, 'open'>,
  place: string,
): T | undefined {
  try {
    return JSON.parse(keys.open(cookies.get(name) ?? '', place)) as T;
  } catch {
    return undefined;
  }
}

const STYLE =
  'body{font:16px/1.5 system-ui,sans-serif;margin:0;background:Canvas;color:CanvasText;color-scheme:light dark}' +
  'main{max-width:32rem;margin:12vh auto;padding:0 1.25rem}h1{font-size:1.4rem}dt{opacity:.7}dd{margin:0 0 .75rem;overflow-wrap:anywhere}' +
  'button{font:inherit;padding:.5rem 1.1rem;margin:.5rem .5rem 0 0;border-radius:.4rem;border:1px solid;cursor:pointer}' +
  'button.primary{background:#1f5fd0;border-color:#1f5fd0;color:#fff}';
const STYLE_HASH = createHash('sha256').update(STYLE).digest('base64');

/** Text of others in a page, on one line. */
export const foreignText = (text: string): string =>
  escapeHtml(shownLine(text.length > MAX_FOREIGN ? `${text.slice(0, MAX_FOREIGN)}…` : text));

/** Text in a page. */
export const escapeHtml = (text: string): string =>
  text.replaceAll(/[&<>"']/g, (character) => `&#${character.codePointAt(0)};`);

/**
 * A page that cannot be framed, so that no other page can make a user click in it.
 * @param formTargets where its form may lead, redirects included; default nowhere
 * @param script hash of its script; default: it has none
 */
export function page(
  status: number,
  title: string,
  content: string,
  formTargets = "'none'",
  cookies: string[] = [],
  script = "'none'",
): IdentityHttpReply {
  const policy = `default-src 'none'; script-src ${script}; style-src 'sha256-${STYLE_HASH}'; form-action ${formTargets}; frame-ancestors 'none'; base-uri 'none'`;
  return {
    status,
    headers: [
      ['content-type', 'text/html; charset=utf-8'],
      ['content-security-policy', policy],
      ['x-content-type-options', 'nosniff'],
      ['x-frame-options', 'DENY'],
      ...withCookies(cookies),
      ...PRIVATE,
    ],
    body:
      `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">` +
      `<title>${escapeHtml(title)} · toolfleet</title><style>${STYLE}</style><main><h1>${escapeHtml(title)}</h1>${content}</main></html>`,
  };
}

/** A page that says what went wrong and where to go on. */
export function errorPage(error: unknown, cookies: string[] = []): IdentityHttpReply {
  const known = toToolError(error);
  const message = isToolError(error) ? known.message : 'Internal error; report it to the operator of this fleet.';
  const next = '<p><a href="/console">Back to the console</a></p>';
  return page(
    CATALOGUE[known.code].http,
    'Sign-in failed',
    `<p role="alert">${foreignText(message)}</p>${next}`,
    "'none'",
    cookies,
  );
}

export const json = (status: number, value: object): IdentityHttpReply => ({
  status,
  headers: [['content-type', 'application/json'], ...PRIVATE],
  body: JSON.stringify(value),
});
