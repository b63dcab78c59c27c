import { isIP } from 'node:net';
import { ToolError } from '@toolfleet/contracts';
import { refusal, type EgressLayer } from './errors.js';

/** One allowed host, as configured: `[http[s]://]host[:port]`, `*.host`, or `*`. */
interface AllowEntry {
  /** Exact host, or the part after `*` with its leading dot; empty for `*`. */
  host: string;
  kind: 'exact' | 'wildcard' | 'any';
  /** `http://` was written: plain HTTP is allowed to this host. */
  plainHttp: boolean;
  port?: number;
}

/** What the allowlist knows about a host. */
export interface AllowVerdict {
  plainHttp: boolean;
  /** Ports listed for this host beside the general ones. */
  ports: ReadonlySet<number>;
}

const ENTRY = /^(?:(https?):\/\/)?(\*|(?:\*\.)?[a-z0-9_](?:[a-z0-9._-]*[a-z0-9_])?)\.?(?::(\d{1,5}))?$/;

function parseEntry(raw: string): AllowEntry {
  const match = ENTRY.exec(raw.trim().toLowerCase());
  const host = match?.[2];
  if (!match || host === undefined) {
    throw new ToolError('REQUEST_INVALID', {
      message: `Not an allowlist entry: "${raw}" (host, *.host, host:port, http://host)`,
    });
  }
  const kind = host === '*' ? 'any' : host.startsWith('*.') ? 'wildcard' : 'exact';
  return {
    host: kind === 'any' ? '' : kind === 'wildcard' ? host.slice(1) : host,
    kind,
    plainHttp: match[1] === 'http',
    ...(match[3] ? { port: Number(match[3]) } : {}),
  };
}

/**
 * Domains a client may reach. Hosts are compared exactly or by a dot-bounded wildcard:
 * `*.a.b` matches `x.a.b` and `y.x.a.b`, never `a.b` or `xa.b`. Punycode is compared as it is.
 */
export class Allowlist {
  private readonly entries: readonly AllowEntry[];

  /**
   * @param anyHost development flag without which `*` is a configuration fault
   * @throws ToolError REQUEST_INVALID on a malformed entry
   */
  constructor(entries: readonly string[], anyHost = false) {
    this.entries = entries.filter((entry) => entry.trim() !== '').map(parseEntry);
    if (!anyHost && this.entries.some((entry) => entry.kind === 'any')) {
      throw new ToolError('REQUEST_INVALID', {
        message: 'The allowlist entry "*" is for development only and needs its own flag',
      });
    }
  }

  /** The verdict on a host (lower case, no trailing dot), or undefined when no entry names it. */
  find(host: string): AllowVerdict | undefined {
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

/** What the guard needs to know to judge a URL. */
export interface UrlPolicy {
  allowlist: Allowlist;
  /** Schemes allowed to every listed host, without colon; `http` may also be allowed by an entry of its own. */
  schemes: readonly string[];
  /** Ports allowed to every listed host. */
  ports: readonly number[];
  /** Exact `scheme://host:port` origins exempt from the checks of scheme, port, address literals, allowlist and internal names. */
  allowedEndpoints: ReadonlySet<string>;
}

/** A URL that passed {@link guardUrl}; only this is used afterwards. */
export interface GuardedUrl {
  /** `scheme://host[:port]`, one trailing dot of the host removed. */
  origin: string;
  /** Host without brackets. */
  host: string;
  port: number;
  protocol: 'http:' | 'https:';
  /** Path and query as sent. */
  target: string;
  /** Listed in `EGRESS_ALLOWED_ENDPOINTS`. */
  exempt: boolean;
  href: string;
}

// oxlint-disable-next-line no-control-regex -- control characters are what it refuses
const FORBIDDEN_CHARACTERS = /[\u0000-\u0020\u007f\\]/;
const ABSOLUTE_HTTP = /^https?:\/\/[^/]/i;
const OTHER_SCHEME = /^(?!https?:)[a-z][a-z0-9+.-]*:/i;
const AUTHORITY = /^[a-z]+:\/\/([^/?#]*)/i;
/** Suffixes that never leave the machine or the cluster (RFC 6761, RFC 6762, ICANN `.internal`, Kubernetes). */
const INTERNAL_SUFFIXES = ['.localhost', '.local', '.internal', '.svc', '.cluster.local'];

/** Statuses that mean "go elsewhere" (RFC 9110 15.4); 304 and 300 are answers. */
const REDIRECTS = new Set([301, 302, 303, 307, 308]);

/** Canonical `scheme://host:port` form of an allowed endpoint. @throws ToolError REQUEST_INVALID */
export function endpointOrigin(raw: string): string {
  let url: URL | undefined;
  try {
    url = new URL(raw.trim());
  } catch {
    // reported below together with the other faults
  }
  const plain = url && /^https?:$/.test(url.protocol) && !url.username && !url.password && url.pathname === '/';
  if (!url || !plain || url.search || url.hash) {
    throw new ToolError('REQUEST_INVALID', { message: `Not an origin (scheme://host:port): "${raw}"` });
  }
  return url.origin;
}

/**
 * Checks a URL as given by a caller or an upstream, before any DNS query: characters, form, userinfo, scheme, port,
 * address literals, allowlist, internal names.
 * @param layer where the URL came from; only named in the refusal
 * @throws ToolError EGRESS_REFUSED
 */
export function guardUrl(raw: string, policy: UrlPolicy, layer: EgressLayer = 'url'): GuardedUrl {
  if (FORBIDDEN_CHARACTERS.test(raw)) throw refusal(layer, 'characters');
  if (!ABSOLUTE_HTTP.test(raw)) throw refusal(layer, OTHER_SCHEME.test(raw) ? 'scheme' : 'malformed');

  let url: URL;
  try {
    url = new URL(raw);
  } catch {
    throw refusal(layer, 'malformed');
  }
  // The raw authority too: `https://@host/` parses to an empty user name and would look clean.
  if (url.username || url.password || AUTHORITY.exec(raw)?.[1]?.includes('@')) throw refusal(layer, 'userinfo');

  const host = bareHost(url.hostname);
  if (host === '') throw refusal(layer, 'malformed');
  const protocol = url.protocol === 'https:' ? 'https:' : 'http:';
  const port = url.port === '' ? (protocol === 'https:' ? 443 : 80) : Number(url.port);
  const bracketed = isIP(host) === 6 ? `[${host}]` : host;
  const origin = `${protocol}//${bracketed}${url.port === '' ? '' : `:${url.port}`}`;
  const guarded: GuardedUrl = {
    origin,
    host,
    port,
    protocol,
    target: `${url.pathname}${url.search}`,
    exempt: policy.allowedEndpoints.has(origin),
    href: `${origin}${url.pathname}${url.search}`,
  };
  if (guarded.exempt) return guarded;

  const verdict = policy.allowlist.find(host);
  const scheme = protocol.slice(0, -1);
  if (!policy.schemes.includes(scheme) && !(scheme === 'http' && verdict?.plainHttp)) {
    throw refusal(layer, 'scheme', host);
  }
  if (!policy.ports.includes(port) && !verdict?.ports.has(port)) throw refusal(layer, 'port', host);
  if (isIP(host) !== 0) throw refusal(layer, 'ip_literal', host);
  if (!verdict) throw refusal(layer, 'not_allowlisted', host);
  if (!host.includes('.') || INTERNAL_SUFFIXES.some((suffix) => host.endsWith(suffix))) {
    throw refusal(layer, 'internal_name', host);
  }
  return guarded;
}

/** Host without brackets and without one trailing dot (`a.b.` and `a.b` are one host; `a.b..` is none). */
function bareHost(hostname: string): string {
  if (hostname.startsWith('[')) return hostname.slice(1, -1);
  const host = hostname.endsWith('.') ? hostname.slice(0, -1) : hostname;
  return host.endsWith('.') || host.startsWith('.') || host.includes('..') ? '' : host;
}

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
