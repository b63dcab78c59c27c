import type { IncomingHttpHeaders } from 'node:http';
import { hostName, LOOPBACK_NAMES, originName } from '../auth/loopback.js';

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
  const host = hostName(headers.host);
  if (host === undefined) return `Invalid Host: ${headers.host?.slice(0, 200) ?? 'missing'}`;
  const isLoopback = localAddress === undefined || /^(127\.|::1$|::ffff:127\.)/.test(localAddress);
  if (isLoopback && !LOOPBACK_NAMES.has(host) && !rules.allowedHosts.includes(host)) return `Invalid Host: ${host}`;
  const { origin } = headers;
  if (origin === undefined || rules.allowedOrigins.includes(origin)) return undefined;
  const page = originName(origin);
  if (page !== undefined && (page === host || (LOOPBACK_NAMES.has(page) && LOOPBACK_NAMES.has(host)))) return undefined;
  return `Invalid Origin: ${origin.slice(0, 200)}`;
}
