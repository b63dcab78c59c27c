import type { Milliseconds } from '@toolfleet/contracts';
import type { EgressClient, EgressResponse } from '@toolfleet/egress';
import type { BuiltRequest } from '@toolfleet/openapi';
import type { Logger } from '@toolfleet/telemetry';

/** A request on its way out: headers by lower-case name. */
export interface OutgoingRequest {
  method: string;
  origin: string;
  /** Request target, sent unchanged. */
  target: string;
  headers: Record<string, string>;
  body?: Uint8Array | string;
}

/** A built request with one value per header; repeated ones are joined as RFC 9110 section 5.3 allows. */
export function outgoing(built: BuiltRequest): OutgoingRequest {
  const headers = new Map<string, string>();
  for (const [name, value] of built.headers) {
    const key = name.toLowerCase();
    const before = headers.get(key);
    headers.set(key, before === undefined ? value : `${before}${key === 'cookie' ? '; ' : ', '}${value}`);
  }
  const { method, origin, target, body } = built;
  return { method, origin, target, headers: Object.fromEntries(headers), body };
}

/** Sends a request through the egress guard: GET and HEAD follow redirects, for other methods a 3xx is the response. */
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

const SECRET_NAME = /authorization|token|secret|password|api_?-?key|cookie/i;
const MAX_BODY = 2_000;

/** A function that logs requests before they get their credentials. Values under secret names are masked, also in JSON and forms. */
export function logRequest(logger: Logger): (request: Readonly<OutgoingRequest>, tool: string) => void {
  return (request, tool) => {
    const { method, origin } = request;
    const headers = JSON.parse(masked(JSON.stringify(request.headers))) as Record<string, string>;
    const target = maskedPairs(request.target);
    logger.info({ tool, method, origin, target, headers, body: maskedBody(request) }, 'request');
  };
}

/** @throws SyntaxError for a text that is not JSON */
const masked = (json: string): string =>
  JSON.stringify(JSON.parse(json, (name, value: unknown) => (SECRET_NAME.test(name) ? '***' : value)));

const maskedPairs = (pairs: string): string =>
  pairs.replace(/(^|[?&])([^?=&]+)=([^&]*)/g, (pair, mark: string, name: string) =>
    SECRET_NAME.test(name) ? `${mark}${name}=***` : pair,
  );

/** Of a body whose names are not known, the size. */
function maskedBody({ body, headers }: Readonly<OutgoingRequest>): string | undefined {
  if (body === undefined) return undefined;
  if (typeof body !== 'string') return `${body.byteLength} bytes`;
  const type = headers['content-type'] ?? '';
  try {
    if (/[/+]json\b/i.test(type)) return masked(body).slice(0, MAX_BODY);
    if (/\bx-www-form-urlencoded\b/i.test(type)) return maskedPairs(body).slice(0, MAX_BODY);
  } catch {
    // Text that the caller gave for JSON.
  }
  return `${body.length} characters`;
}
