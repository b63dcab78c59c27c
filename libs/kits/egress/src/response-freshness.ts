import type { EgressResponse } from './egress-options.js';
import { joinHeader } from './response-receiver.js';

/** Longest reuse of a response: a day. */
const MAX_FRESH_MS = 86_400_000;

/**
 * How long a response may be reused, by its `Cache-Control`, `Expires`, `Age` and `Vary` headers (RFC 9111 section 4.2, as a
 * private cache: results are cached per tenant).
 * @param now milliseconds since the epoch
 * @returns milliseconds; 0 when the response must not be reused (`no-store`, `no-cache`, expired, `Vary: *`); undefined when the
 * upstream does not say. Nothing is guessed from `Last-Modified`.
 */
export function readFreshnessMs(headers: EgressResponse['headers'], now: number): number | undefined {
  const directives = readDirectives(joinHeader(headers['cache-control']) ?? '');
  if (directives.has('no-store') || directives.has('no-cache')) return 0;
  if (/(?:^|,)\s*\*\s*(?:,|$)/.test(joinHeader(headers.vary) ?? '')) return 0;
  const lifetimeMs = readLifetimeMs(directives, headers, now);
  if (lifetimeMs === undefined) return undefined;
  const ageMs = (readSeconds(joinHeader(headers.age) ?? '') ?? 0) * 1_000;
  return Math.min(Math.max(0, lifetimeMs - ageMs), MAX_FRESH_MS);
}

/** `max-age` goes before `Expires`. An invalid value of either means expired. */
function readLifetimeMs(
  directives: ReadonlyMap<string, string>,
  headers: EgressResponse['headers'],
  now: number,
): number | undefined {
  const maxAge = directives.get('max-age');
  if (maxAge !== undefined) return (readSeconds(maxAge) ?? 0) * 1_000;
  const expires = joinHeader(headers.expires);
  if (expires === undefined) return undefined;
  const date = Date.parse(joinHeader(headers.date) ?? '');
  const lifetimeMs = Date.parse(expires) - (Number.isNaN(date) ? now : date);
  return Number.isNaN(lifetimeMs) ? 0 : Math.max(0, lifetimeMs);
}

function readDirectives(header: string): Map<string, string> {
  const directives = new Map<string, string>();
  for (const part of header.split(',')) {
    const [name = '', value = ''] = part.split('=', 2);
    const key = name.trim().toLowerCase();
    // The first of two equal directives counts.
    if (key !== '' && !directives.has(key)) directives.set(key, value.trim().replace(/^"(.*)"$/, '$1'));
  }
  return directives;
}

function readSeconds(value: string): number | undefined {
  return /^\d{1,15}$/.test(value.trim()) ? Number(value) : undefined;
}
