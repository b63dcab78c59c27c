import { isJsonObject, isServerFault, type Json, type JsonObject } from '@toolfleet/contracts';
import type { ExecResponse } from '@toolfleet/contracts/execution';
import { isNestedTooDeep, parseExact } from '@toolfleet/contracts/json-text';
import { joinHeader, readFreshnessMs, type EgressResponse } from '@toolfleet/egress';
import { redact } from '@toolfleet/telemetry';

/** Characters of an upstream's error body in `error` (Shannon's users match the text). */
const ERROR_CHARS = 200;

/** Response headers in the metadata; never cookies or credentials. */
const SHOWN_HEADERS = [
  'content-range',
  'content-language',
  'etag',
  'last-modified',
  'link',
  'location',
  'retry-after',
  'x-request-id',
  'x-total-count',
  'x-ratelimit-limit',
  'x-ratelimit-remaining',
  'x-ratelimit-reset',
] as const;

/**
 * Reads a response of at most `maxBytes` into the outcome of the attempt: JSON parsed, text as a string, everything else as base64. Statuses
 * from 300 are failures with the upstream's message.
 * @param transform changes the output of a success before it is described as text
 * @throws ToolError when the body breaks off
 */
export async function readResponse(
  response: EgressResponse,
  method: string,
  maxBytes: number,
  now: number,
  transform: (output: Json) => Json = (output) => output,
): Promise<ExecResponse> {
  const bytes = await response.body.bytes();
  const contentType = joinHeader(response.headers['content-type']) ?? '';
  const truncated = response.body.truncated;
  const metadata: JsonObject = { http_status: response.status, content_type: contentType, bytes: bytes.byteLength };
  const headers = shownHeaders(response);
  if (Object.keys(headers).length > 0) metadata.headers = headers;
  if (truncated) {
    metadata.truncated = true;
    const total = Number(joinHeader(response.headers['content-length']));
    if (total > 0 && response.headers['content-encoding'] === undefined) metadata.total_bytes = total;
    metadata.hint = `The response was cut at ${maxBytes} bytes: narrow the call (filters, fields, a smaller page).`;
  }
  const received = method === 'HEAD' || bytes.byteLength === 0 ? null : toOutput(bytes, contentType, truncated);
  if (response.status >= 300) return failed(response, received, metadata, now);
  const output = transform(received);
  const text = toText(output, response.status, metadata);
  return { ok: true, output, text, metadata, cache_ttl_ms: readFreshnessMs(response.headers, now) };
}

function toOutput(bytes: Buffer, contentType: string, truncated: boolean): Json {
  const type = (contentType.split(';')[0] ?? '').trim().toLowerCase();
  const json = /^[^/]+\/(?:json|[^/]*\+json)$/.test(type);
  if (json || type === '' || isText(type)) {
    const text = decoded(bytes, contentType, type === '');
    if (text !== undefined) {
      // The response may echo credentials that must not reach the model.
      const clean = redact(text);
      return (json || type === '') && !truncated ? (parsed(clean) ?? clean) : clean;
    }
  }
  return {
    content_base64: bytes.toString('base64'),
    content_type: type || 'application/octet-stream',
    bytes: bytes.byteLength,
  };
}

/**
 * Undefined for text that is not JSON or is nested too deep for a reply; it stays text.
 */
function parsed(text: string): Json | undefined {
  try {
    const { value } = parseExact(text.charCodeAt(0) === 0xfeff ? text.slice(1) : text);
    return isNestedTooDeep(value, text.length) ? undefined : value;
  } catch {
    return undefined;
  }
}

function isText(type: string): boolean {
  return (
    type.startsWith('text/') ||
    /^application\/(?:xml|[^/]*\+xml|yaml|x-yaml|javascript|ecmascript|graphql|x-ndjson|ndjson|jsonl|x-www-form-urlencoded|sql|toml|jwt)$/.test(
      type,
    )
  );
}

/** Text in the declared charset, UTF-8 otherwise. Without a type only valid UTF-8 counts as text. */
function decoded(bytes: Buffer, contentType: string, strict: boolean): string | undefined {
  const charset = /charset\s*=\s*"?([^\s";]+)/i.exec(contentType)?.[1] ?? 'utf-8';
  try {
    return new TextDecoder(charset, { fatal: strict, ignoreBOM: false }).decode(bytes);
  } catch {
    return strict ? undefined : bytes.toString('utf8');
  }
}

function toText(output: Json, status: number, metadata: JsonObject): string {
  if (output === null) return `HTTP ${status}, no content`;
  if (typeof output === 'object' && 'content_base64' in output && 'bytes' in output) {
    return `Binary content: ${String((output as JsonObject).content_type)}, ${String((output as JsonObject).bytes)} bytes`;
  }
  return metadata.truncated === true
    ? `${cutText(summarise(output), 5_800)}\n${String(metadata.hint)}`
    : summarise(output);
}

function failed(response: EgressResponse, output: Json, metadata: JsonObject, now: number): ExecResponse {
  const { status } = response;
  const body = typeof output === 'string' ? output : output === null ? '' : JSON.stringify(output);
  const location = joinHeader(response.headers.location);
  const said = status < 400 && location !== undefined ? `redirect to ${toOrigin(location)} was not followed` : body;
  const message = `HTTP ${status}: ${(said || response.statusText).slice(0, ERROR_CHARS)}`.trimEnd();
  const retryAfterMs = retryAfter(joinHeader(response.headers['retry-after']), now);
  return {
    ok: false,
    output,
    text: cutText(`HTTP ${status}: ${said || response.statusText}`, 2_000),
    metadata,
    failure: {
      code: 'UPSTREAM_ERROR',
      errorType: 'upstream_error',
      message,
      retryable: isServerFault(status),
      details: { http_status: status },
      facts: { status },
    },
    retry_after_ms: retryAfterMs,
  };
}

/** Seconds or an HTTP date (RFC 9110 section 10.2.3). */
function retryAfter(value: string | undefined, now: number): number | undefined {
  if (value === undefined) return undefined;
  const ms = /^\d+$/.test(value.trim()) ? Number(value) * 1_000 : Date.parse(value) - now;
  return Number.isFinite(ms) && ms > 0 ? Math.min(ms, 3_600_000) : undefined;
}

/** The origin alone, because the query of a redirect may contain secrets. */
function toOrigin(location: string): string {
  try {
    return new URL(location).origin;
  } catch {
    return 'another path';
  }
}

function shownHeaders(response: EgressResponse): JsonObject {
  const shown: JsonObject = {};
  for (const name of SHOWN_HEADERS) {
    const sent = joinHeader(response.headers[name]);
    if (sent !== undefined) shown[name] = redact(sent).slice(0, 500);
  }
  return shown;
}

/** Longest `text` shown to a model, in characters (as in Shannon). */
const MAX_TEXT = 6_000;

/** Items of an array, then characters of a string, that are tried until the summary fits. */
const STEPS: readonly [items: number, characters: number][] = [
  [50, 1_000],
  [20, 500],
  [10, 300],
  [5, 200],
  [3, 120],
  [1, 80],
];

/**
 * A value as text for a model, at most 6,000 characters: whole when it fits; else long arrays and strings are shortened
 * evenly, each with a note about the rest, before the end is cut off.
 */
export function summarise(value: Json): string {
  if (typeof value === 'string') return cutText(value, MAX_TEXT);
  const whole = JSON.stringify(value);
  if (whole.length <= MAX_TEXT) return whole;
  for (const [items, characters] of STEPS) {
    const text = JSON.stringify(shortened(value, items, characters));
    if (text.length <= MAX_TEXT) return text;
  }
  return cutText(whole, MAX_TEXT);
}

function shortened(value: Json, items: number, characters: number): Json {
  if (typeof value === 'string') return value.length > characters ? cutText(value, characters) : value;
  if (Array.isArray(value)) {
    const kept = value.slice(0, items).map((item) => shortened(item, items, characters));
    return value.length > items ? [...kept, `… ${value.length - items} more of ${value.length}`] : kept;
  }
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, shortened(item, items, characters)]));
}

/** Cuts a text to `limit` characters, including a note of its full length. */
function cutText(text: string, limit: number): string {
  if (text.length <= limit) return text;
  const note = `… (${text.length} characters in total)`;
  return text.slice(0, Math.max(0, limit - note.length)).toWellFormed() + note;
}
