import { headerValues } from './credential.js';

/** Host names of the local machine. */
export const LOOPBACK_NAMES: ReadonlySet<string> = new Set(['localhost', '127.0.0.1', '[::1]']);

const HOST_PATTERN = /^(\[[0-9a-f:.]{2,45}\]|[a-z0-9_.-]{1,253})(?::(\d{1,5}))?$/;
const MAX_PORT = 65_535;

/** The host name in a `Host` header (RFC 9112 section 3.2) in lower case; undefined if the name or port is invalid. */
export function hostName(host: string | undefined): string | undefined {
  const [, name, port] = HOST_PATTERN.exec((host ?? '').toLowerCase()) ?? [];
  return port !== undefined && Number(port) > MAX_PORT ? undefined : name;
}

/** The host name of an `Origin` header in lower case; undefined for `null` and invalid URLs. */
export function originName(origin: string): string | undefined {
  const url = URL.parse(origin);
  return url === null || url.hostname === '' ? undefined : url.hostname.toLowerCase();
}

/**
 * Whether `Host`, and `Origin` if present, are loopback names. A web page that rebinds its own name to 127.0.0.1, or posts
 * across sites, fails this check.
 */
export function isLoopbackRequest(rawHeaders: readonly string[]): boolean {
  const hosts = headerValues(rawHeaders, 'host').map(hostName);
  const origins = headerValues(rawHeaders, 'origin').map(originName);
  return hosts.length === 1 && [...hosts, ...origins].every((name) => LOOPBACK_NAMES.has(name ?? ''));
}
