import { isIP } from 'node:net';
import { CodedError, RecentMap } from '@toolfleet/base';
import { refusal, type EgressLayer } from './errors.js';

/** A configured entry: `[http[s]://]host[:port]`, `*.host` or `*`. */
interface AllowEntry {
  /** Exact host, or the part after `*` with its leading dot; empty for `*`. */
  host: string;
  kind: 'exact' | 'wildcard' | 'any';
  /** The entry says `http://`: plain HTTP to this host is allowed. */
  plainHttp: boolean;
  port?: number;
}

/** Permissions of the entries that match a host. */
interface AllowedHost {
  plainHttp: boolean;
  /** Ports listed for this host, in addition to the usual ones. */
  ports: ReadonlySet<number>;
}

const ENTRY = /^(?:(https?):\/\/)?(\*|(?:\*\.)?[a-z0-9_](?:[a-z0-9._-]*[a-z0-9_])?)\.?(?::(\d{1,5}))?$/;

function parseEntry(raw: string): AllowEntry {
  const match = ENTRY.exec(raw.trim().toLowerCase());
  const host = match?.[2];
  if (!match || host === undefined) {
    throw new CodedError('REQUEST_INVALID', {
      message: `Invalid allowlist entry "${raw}": use host, *.host, host:port or http://host`,
    });
  }
  const kind = host === '*' ? 'any' : host.startsWith('*.') ? 'wildcard' : 'exact';
  return {
    host: kind === 'any' ? '' : kind === 'wildcard' ? host.slice(1) : host,
    kind,
    plainHttp: match[1] === 'http',
    port: match[3] ? Number(match[3]) : undefined,
  };
}

/**
 * The hosts a client may reach. An entry matches exactly or as a wildcard for whole labels: `*.a.b` matches `x.a.b` and
 * `y.x.a.b`, but not `a.b` or `xa.b`. Internationalized names are compared in Punycode.
 */
export class Allowlist {
  private readonly entries: readonly AllowEntry[];

  /**
   * @param anyHost development flag; without it the entry `*` is refused
   * @throws CodedError REQUEST_INVALID on a malformed entry
   */
  constructor(entries: readonly string[], anyHost = false) {
    this.entries = entries.filter((entry) => entry.trim() !== '').map(parseEntry);
    if (!anyHost && this.entries.some((entry) => entry.kind === 'any')) {
      throw new CodedError('REQUEST_INVALID', {
        message: 'The allowlist entry "*" is for development only: enable any host explicitly, or list the hosts',
      });
    }
  }

  /** Permissions of a host (lower case, no trailing dot); undefined if no entry matches. */
  find(host: string): AllowedHost | undefined {
    const found = this.entries.filter(
      (entry) =>
        entry.kind === 'any' ||
        (entry.kind === 'exact' ? entry.host === host : host.endsWith(entry.host) && host.length > entry.host.length),
    );
    if (found.length === 0) return undefined;
    return {
      plainHttp: found.some((entry) => entry.plainHttp),
      ports: new Set(found.flatMap((entry) => (entry.port === undefined ? [] : [entry.port]))),
    };
  }
}

/** Answers whether an origin, in the form of {@link endpointOrigin}, is allowed. */
export interface OriginSet {
  has(origin: string): boolean;
}

/** The rules of {@link guardUrl}. */
export interface UrlPolicy {
  allowlist: Allowlist;
  /** Key of the setting that it comes from, for refusals. */
  allowlistKey?: string | undefined;
  /** Schemes allowed for every listed host, without the colon. An entry `http://host` allows `http` for that host. */
  schemes: readonly string[];
  /** Exact `scheme://host:port` origins that skip the checks of scheme, port, address literals, allowlist and internal names. */
  allowedEndpoints: OriginSet;
}

/** A URL that passed {@link guardUrl}. Later steps use only this, so that no second parser can read the URL differently. */
export interface GuardedUrl {
  /** `scheme://host[:port]`, without a trailing dot of the host. */
  origin: string;
  /** Host without brackets. */
  host: string;
  port: number;
  protocol: 'http:' | 'https:';
  /** Path and query as sent. */
  target: string;
  /** An allowed endpoint: it skips the checks of addresses. */
  exempt: boolean;
  href: string;
}

// oxlint-disable-next-line no-control-regex -- matches control characters to refuse them
const FORBIDDEN_CHARACTERS = /[\u0000-\u0020\u007f\\]/;
const ABSOLUTE_HTTP = /^https?:\/\/[^/]/i;
const OTHER_SCHEME = /^(?!https?:)[a-z][a-z0-9+.-]*:/i;
const AUTHORITY = /^[a-z]+:\/\/([^/?#]*)/i;
/** Suffixes of names inside a machine or cluster (RFC 6761, RFC 6762, ICANN's `.internal`, Kubernetes). */
const INTERNAL_SUFFIXES = ['.localhost', '.local', '.internal', '.svc', '.cluster.local'];

/** Ports allowed for every listed host. */
const PORTS = new Set([80, 443]);

/** Redirects to another URL (RFC 9110, 15.4); 300 and 304 are final responses. */
const REDIRECTS = new Set([301, 302, 303, 307, 308]);

/** Canonical `scheme://host:port` form of an allowed endpoint. @throws CodedError REQUEST_INVALID */
export function endpointOrigin(raw: string): string {
  let url: URL | undefined;
  try {
    url = new URL(raw.trim());
  } catch {
    // reported below
  }
  const plain = url && /^https?:$/.test(url.protocol) && !url.username && !url.password && url.pathname === '/';
  if (!url || !plain || url.search || url.hash) {
    throw new CodedError('REQUEST_INVALID', {
      message: `Invalid origin "${raw}": use scheme://host:port without a path`,
    });
  }
  return url.origin;
}

/**
 * Checks a URL given by a caller or an upstream before any DNS query: characters, syntax, user info, scheme, port, IP
 * literals, allowlist and internal names. The address guard checks the addresses of the name (connector.ts).
 * @param layer where the URL came from, for the refusal
 * @throws CodedError EGRESS_REFUSED
 */
export function guardUrl(raw: string, policy: UrlPolicy, layer: EgressLayer = 'url'): GuardedUrl {
  const parsed = parsedUrls.get(raw) ?? parseHttpUrl(raw, layer);
  const { origin, host, port, protocol, isAddress } = parsed;
  const exempt = policy.allowedEndpoints.has(origin);
  const guarded: GuardedUrl = { origin, host, port, protocol, target: parsed.target, exempt, href: parsed.href };
  if (guarded.exempt) return guarded;

  const allowed = policy.allowlist.find(host);
  const scheme = protocol.slice(0, -1);
  const isInternal = !host.includes('.') || INTERNAL_SUFFIXES.some((suffix) => host.endsWith(suffix));
  const canBeListed = policy.allowlistKey !== undefined && !isAddress && !isInternal;
  const toList = (entry: string) => (canBeListed ? `${entry} to ${policy.allowlistKey}` : undefined);
  if (!policy.schemes.includes(scheme) && !(scheme === 'http' && allowed?.plainHttp)) {
    throw refusal(layer, 'scheme', host, toList(`http://${host}`));
  }
  if (!PORTS.has(port) && !allowed?.ports.has(port)) throw refusal(layer, 'port', host, toList(`${host}:${port}`));
  if (isAddress) throw refusal(layer, 'ip_literal', host);
  if (!allowed) throw refusal(layer, 'not_allowlisted', host, toList(host));
  if (isInternal) throw refusal(layer, 'internal_name', host);
  return guarded;
}

/** The parts of a URL, as written in it. */
interface ParsedUrl extends Omit<GuardedUrl, 'exempt'> {
  /** The host is an IP address. */
  isAddress: boolean;
}

/** URLs that were parsed: calls of a source send theirs again and again. */
const parsedUrls = new RecentMap<string, ParsedUrl>({ max: 500 });
const MAX_PARSED_CHARS = 200;

/** @throws CodedError EGRESS_REFUSED for a text that is not an absolute HTTP URL, or has a user */
function parseHttpUrl(raw: string, layer: EgressLayer): ParsedUrl {
  if (FORBIDDEN_CHARACTERS.test(raw)) throw refusal(layer, 'characters');
  if (!ABSOLUTE_HTTP.test(raw)) throw refusal(layer, OTHER_SCHEME.test(raw) ? 'scheme' : 'malformed');

  let url: URL;
  try {
    url = new URL(raw);
  } catch {
    throw refusal(layer, 'malformed');
  }
  // Check the raw authority too: the parser turns `https://@host/` into an empty user name.
  if (url.username || url.password || AUTHORITY.exec(raw)?.[1]?.includes('@')) throw refusal(layer, 'userinfo');

  const host = bareHost(url.hostname);
  if (host === '') throw refusal(layer, 'malformed');
  const protocol = url.protocol === 'https:' ? 'https:' : 'http:';
  const port = url.port === '' ? (protocol === 'https:' ? 443 : 80) : Number(url.port);
  const family = isIP(host);
  const bracketed = family === 6 ? `[${host}]` : host;
  const origin = `${protocol}//${bracketed}${url.port === '' ? '' : `:${url.port}`}`;
  const target = `${url.pathname}${url.search}`;
  const parsed = { origin, host, port, protocol, target, href: `${origin}${target}`, isAddress: family !== 0 } as const;
  if (raw.length <= MAX_PARSED_CHARS) parsedUrls.set(raw, parsed);
  return parsed;
}

/** Host without brackets and without one trailing dot (`a.b.` equals `a.b`); '' for an invalid one such as `a.b..`. */
function bareHost(hostname: string): string {
  if (hostname.startsWith('[')) return hostname.slice(1, -1);
  const host = hostname.endsWith('.') ? hostname.slice(0, -1) : hostname;
  return host.endsWith('.') || host.startsWith('.') || host.includes('..') ? '' : host;
}

/** True for a redirect status with a `Location`. */
export function isRedirect(status: number, location: string | undefined): location is string {
  return REDIRECTS.has(status) && location !== undefined;
}

/**
 * Resolves `Location` against the URL that answered, and applies all checks to the result. Refuses a redirect from HTTPS
 * to HTTP.
 * @throws CodedError EGRESS_REFUSED with layer `redirect`
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
