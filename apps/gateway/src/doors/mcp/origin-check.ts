import type { IncomingHttpHeaders } from 'node:http';

const LOOPBACK_NAMES = new Set(['localhost', '127.0.0.1', '[::1]']);

/** What decides whether a request may come from a web page (DNS rebinding, cross-site calls). */
export interface OriginRules {
  allowedHosts: readonly string[];
  allowedOrigins: readonly string[];
}

/**
 * Why a request is refused because of `Host` or `Origin`, or undefined. A request that arrives on loopback must name a
 * loopback host: a page that rebinds its own name to 127.0.0.1 sends that name. An `Origin` must be the door's own host,
 * another loopback page on loopback, or listed; programs send none.
 */
export function originFault(
  headers: IncomingHttpHeaders,
  localAddress: string | undefined,
  rules: OriginRules,
): string | undefined {
  const host = hostName(headers.host ?? '');
  const isLoopback = localAddress === undefined || /^(127\.|::1$|::ffff:127\.)/.test(localAddress);
  if (isLoopback && !LOOPBACK_NAMES.has(host) && !rules.allowedHosts.includes(host))
    return `Invalid Host: ${host || 'missing'}`;
  const { origin } = headers;
  if (origin === undefined || rules.allowedOrigins.includes(origin)) return undefined;
  const page = originHost(origin);
  if (page !== undefined && (page === host || (LOOPBACK_NAMES.has(page) && LOOPBACK_NAMES.has(host)))) return undefined;
  return `Invalid Origin: ${origin.slice(0, 200)}`;
}

function hostName(host: string): string {
  return host.toLowerCase().replace(/:\d+$/, '');
}

function originHost(origin: string): string | undefined {
  try {
    return new URL(origin).hostname.toLowerCase();
  } catch {
    return undefined;
  }
}
