import type { Milliseconds } from '@toolfleet/contracts';
import type { EgressClient, EgressResponse } from '@toolfleet/egress';
import type { BuiltRequest } from '@toolfleet/openapi';

/** A request on its way out: headers by lower-case name. */
export interface OutgoingRequest {
  method: string;
  origin: string;
  /** Goes on the request line as it is. */
  target: string;
  headers: Record<string, string>;
  body?: Uint8Array | string;
}

/** A built request as it is sent; repeated headers are joined as RFC 9110 section 5.3 allows. */
export function outgoing(built: BuiltRequest): OutgoingRequest {
  const headers: Record<string, string> = Object.create(null);
  for (const [name, value] of built.headers) {
    const key = name.toLowerCase();
    const before = headers[key];
    headers[key] = before === undefined ? value : `${before}${key === 'cookie' ? '; ' : ', '}${value}`;
  }
  const { method, origin, target, body } = built;
  return { method, origin, target, headers, ...(body === undefined ? {} : { body }) };
}

/** Sends it through the egress guard: GET and HEAD follow redirects, every other 3xx is the answer. */
export function sendRequest(
  egress: EgressClient,
  request: OutgoingRequest,
  limits: { remainingMs: Milliseconds; signal: AbortSignal; maxBytes: number },
): Promise<EgressResponse> {
  return egress.request({
    url: { origin: request.origin, target: request.target },
    method: request.method,
    headers: request.headers,
    body: request.body ?? null,
    signal: limits.signal,
    timeouts: { headersMs: limits.remainingMs, bodyIdleMs: limits.remainingMs, totalMs: limits.remainingMs },
    maxBytes: limits.maxBytes,
    onOverflow: 'truncate',
  });
}
