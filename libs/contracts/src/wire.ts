import { CATALOGUE, docUrl, isErrorCode } from './errors/catalogue.js';
import { ToolError, type FailureFacts } from './errors/tool-error.js';
import { isJsonObject, type JsonObject } from '@toolfleet/base/json';

type SnakeKey<S extends string> = S extends `${infer Head}${infer Rest}`
  ? `${Head extends Lowercase<Head> ? Head : `_${Lowercase<Head>}`}${SnakeKey<Rest>}`
  : S;
type CamelKey<S extends string> = S extends `${infer Head}_${infer Rest}` ? `${Head}${Capitalize<CamelKey<Rest>>}` : S;

/** An object type with names in camelCase. */
export type CamelCased<T> = { [K in keyof T as CamelKey<K & string>]: T[K] };

const snakeKeys = new Map<string, string>();

/**
 * Renames the members of an object from camelCase, as in code, to snake_case, as on the wire. Shallow: values are kept
 * unchanged. Members that are undefined are left out. For fixed sets of names only, since every name is remembered.
 */
export function toSnakeCase<T extends object>(value: T): { [K in keyof T & string as SnakeKey<K>]: T[K] } {
  const result: Record<string, unknown> = {};
  for (const [name, member] of Object.entries(value)) {
    if (member === undefined) continue;
    let other = snakeKeys.get(name);
    if (other === undefined)
      snakeKeys.set(name, (other = name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)));
    result[other] = member;
  }
  return result as never;
}

/** NATS header that carries the message of an error (NATS micro services, ADR-32). */
export const ERROR_HEADER = 'Nats-Service-Error';
/** NATS header that carries the HTTP-like status of an error. */
export const ERROR_CODE_HEADER = 'Nats-Service-Error-Code';

/** Body of every error over HTTP and NATS. `error` is the message; unlike `code` it may change. */
export interface ErrorBody {
  error: string;
  code: string;
  hint?: string;
  doc_url?: string;
  details?: JsonObject;
  call_id?: string;
  retry_after_ms?: number;
}

/** An error between services of the fleet. */
export interface InternalErrorBody extends ErrorBody {
  facts?: FailureFacts;
}

/** The body of an error for HTTP and NATS. */
export function errorBody(error: ToolError, callId?: string): ErrorBody {
  return {
    error: error.message,
    code: error.code,
    hint: CATALOGUE[error.code].hint,
    doc_url: docUrl(error.code),
    details: error.details,
    call_id: callId || undefined,
    retry_after_ms: error.retryAfterMs,
  };
}

/** The body of an error for another service of the fleet, with the facts. */
export function internalErrorBody(error: ToolError, callId?: string): InternalErrorBody {
  return { ...errorBody(error, callId), facts: error.facts };
}

/** Restores an error from a body that another process sent. An unknown code, or a body of another shape, becomes INTERNAL. */
export function errorFromBody(body: unknown): ToolError {
  const fields = (typeof body === 'object' && body !== null ? body : {}) as Partial<InternalErrorBody>;
  const code = isErrorCode(fields.code) ? fields.code : 'INTERNAL';
  return new ToolError(code, {
    message: typeof fields.error === 'string' ? fields.error : undefined,
    details: typeof fields.details === 'object' && fields.details !== null ? fields.details : undefined,
    facts: isJsonObject(fields.facts) ? (fields.facts as FailureFacts) : undefined,
    retryAfterMs: typeof fields.retry_after_ms === 'number' ? fields.retry_after_ms : undefined,
  });
}
