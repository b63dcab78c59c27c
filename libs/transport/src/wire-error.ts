import { isErrorCode, toToolError, ToolError, type ErrorCode } from '@toolfleet/contracts';
import { ERROR_CODE_HEADER, ERROR_HEADER, errorBody, errorFromBody } from '@toolfleet/contracts/wire';
import type { IncomingHeaders, OutgoingHeaders } from './headers.js';

/** Longest message in the error header; the body carries it whole. */
const HEADER_MESSAGE_MAX = 200;

/** Status codes of foreign responders that carry no code of ours. */
const FOREIGN: Readonly<Record<string, ErrorCode>> = {
  '400': 'REQUEST_INVALID',
  '401': 'UNAUTHENTICATED',
  '403': 'PERMISSION_DENIED',
  '404': 'NOT_FOUND',
  '413': 'PAYLOAD_TOO_LARGE',
  '429': 'RATE_LIMITED',
  '503': 'SERVICE_UNAVAILABLE',
  '504': 'DEADLINE_EXCEEDED',
};

/** Headers and JSON body of an error reply (NATS micro services, ADR-32). */
export function errorReply(error: unknown, callId?: string): { headers: OutgoingHeaders; body: Uint8Array } {
  const known = toToolError(error);
  const message = known.message.replace(/[^\x20-\x7e]+/g, ' ').slice(0, HEADER_MESSAGE_MAX);
  return {
    headers: { [ERROR_HEADER]: message, [ERROR_CODE_HEADER]: String(known.entry.http) },
    body: Buffer.from(JSON.stringify(errorBody(known, callId))),
  };
}

/** The error of a reply, or undefined when the reply is a result. */
export function errorOfReply(headers: IncomingHeaders | undefined, body: unknown): ToolError | undefined {
  const status = headers?.get(ERROR_CODE_HEADER);
  if (status === undefined) return undefined;
  const code = (body as { code?: unknown } | undefined)?.code;
  if (isErrorCode(code)) return errorFromBody(body);
  const message = headers?.get(ERROR_HEADER);
  return new ToolError(FOREIGN[status] ?? 'INTERNAL', message === undefined ? {} : { message });
}
