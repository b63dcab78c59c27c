/**
 * Messages as bytes: NATS headers, JSON bodies, and errors as headers plus body. Everything here runs for each message, so headers
 * are encoded and searched without building objects.
 */
import {
  CATALOGUE,
  isErrorCode,
  isJsonObject,
  ToolError,
  toToolError,
  type CallProgress,
  type ErrorCode,
  type Json,
  type JsonObject,
  type ServerTask,
} from '@toolfleet/contracts';
import {
  bodyError,
  parseExact,
  readJson,
  readOwnJson,
  toExactJson,
  type JsonReading,
} from '@toolfleet/contracts/json-text';
import { ERROR_CODE_HEADER, ERROR_HEADER, errorFromBody, internalErrorBody } from '@toolfleet/contracts/wire';

/** Headers of an outgoing message; values must not contain line breaks. */
export type OutgoingHeaders = Readonly<Record<string, string>>;

/** Headers of a received message. Names are case-insensitive, as in HTTP. */
export interface IncomingHeaders {
  /** First value of a header, trimmed; undefined when it is absent or empty. */
  get(name: string): string | undefined;
}

/** A received message. */
export interface IncomingMessage {
  readonly subject: string;
  /** Subject to reply to; empty when no reply is expected. */
  readonly reply: string;
  readonly headers: IncomingHeaders | undefined;
  /** Bytes of the body. */
  readonly size: number;
  readonly data: Uint8Array;
  /** The body of a message that did not leave the process. */
  readonly text?: string;
  /** The server's reply when a subject has no subscriber: status 503 without a body. */
  readonly isNoResponders: boolean;
  /** Frees the body of a large message; do not use it afterwards. Absent if the sender may still use it. */
  free?(): void;
}

/** Larger messages do not arrive in one read of a socket, so each has memory of its own. */
export const LARGE_MESSAGE = 64 * 1024;

/** Headers of a message that has none. */
export const NO_HEADERS: IncomingHeaders = { get: () => undefined };

const VERSION_LINE = 'NATS/1.0\r\n';
/** Longest message in the error header; the body has all of it. */
const HEADER_MESSAGE_MAX = 200;

/** Status codes of responders outside the fleet: errors without `ErrorCode`. */
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

/**
 * The text of headers as NATS/1.0 (NATS ADR-4). The client library's header object would cost more per message than the rest of it.
 * @throws TypeError when a value contains CR or LF (these would inject a header)
 */
export function headerText(headers: OutgoingHeaders): string {
  let block = VERSION_LINE;
  for (const name in headers) {
    const value = headers[name] as string;
    if (/[\r\n]/.test(value)) throw new TypeError(`header ${name} contains a line break`);
    block += `${name}: ${value}\r\n`;
  }
  return `${block}\r\n`;
}

/** Received headers, searched in their text: a message has few headers, and fewer of them are read. */
export class HeaderBlock implements IncomingHeaders {
  #lowerCase: string | undefined;

  /** @param text of `headerText` */
  constructor(private readonly text: string) {}

  get(name: string): string | undefined {
    let at = this.text.indexOf(`\r\n${name}:`);
    if (at < 0) {
      this.#lowerCase ??= this.text.toLowerCase();
      // Lowercasing changes the length of a few non-ASCII letters; then offsets do not match and only the exact name is found.
      at = this.#lowerCase.length === this.text.length ? this.#lowerCase.indexOf(`\r\n${name.toLowerCase()}:`) : -1;
      if (at < 0) return undefined;
    }
    const start = at + name.length + 3;
    const end = this.text.indexOf('\r\n', start);
    return this.text.slice(start, end < 0 ? undefined : end).trim() || undefined;
  }
}

/** The JSON of a message: its text for a receiver in the same process, its bytes for the server. */
export class OutgoingBody {
  /** Of the bytes. */
  readonly length: number;

  constructor(readonly text: string) {
    this.length = Buffer.byteLength(text);
  }

  get bytes(): Uint8Array {
    return Buffer.from(this.text);
  }
}

/** Of a message without a body. */
export const EMPTY = new OutgoingBody('');

/** JSON of a body; an undefined body is empty. */
export function encode(body: unknown): OutgoingBody {
  return body === undefined ? EMPTY : new OutgoingBody(toExactJson(body));
}

const textOf = ({ text, data }: IncomingMessage): string => text ?? decodeText(data);

/** The JSON of a message, or undefined when it is empty or not JSON. */
export function parseLenient(message: IncomingMessage): unknown {
  try {
    return message.size === 0 ? undefined : parseExact(textOf(message)).value;
  } catch {
    return undefined;
  }
}

/**
 * The body of a request.
 * @param fromOutside the sender may be outside the fleet, so the names and values of the body are limited
 * @throws ToolError REQUEST_INVALID: not JSON, nested too deep, or a number beyond the range of a double; PAYLOAD_TOO_LARGE
 */
export function decodeRequest(message: IncomingMessage, fromOutside = false): unknown {
  if (message.size === 0) return undefined;
  if (message.text !== undefined && !fromOutside) return requestBody(readOwnJson(message.text));
  return requestBody(readJson(message.data, { trusted: !fromOutside }));
}

/** The body that was read. @throws ToolError as `decodeRequest` */
export function requestBody(reading: JsonReading): unknown {
  if (reading.fault === undefined) return reading.value;
  throw bodyError(reading);
}

/** The value of a reply. @throws ToolError the error that the reply carries; INTERNAL when it is not JSON */
export function decodeReply(message: IncomingMessage): unknown {
  let body: unknown;
  if (message.size > 0) {
    try {
      body = parseExact(textOf(message)).value;
    } catch (cause) {
      throw new ToolError('INTERNAL', { message: 'The reply is not JSON', cause });
    }
  }
  const error = message.headers && readErrorReply(message.headers, body);
  if (error) throw error;
  return body;
}

/** Headers and JSON body of an error reply, as NATS micro services define it (NATS ADR-32). */
export function toErrorReply(error: unknown, callId?: string): { headers: OutgoingHeaders; body: OutgoingBody } {
  const known = toToolError(error);
  const message = known.message.replace(/[^\x20-\x7e]+/g, ' ').slice(0, HEADER_MESSAGE_MAX);
  return {
    headers: { [ERROR_HEADER]: message, [ERROR_CODE_HEADER]: String(CATALOGUE[known.code].http) },
    body: new OutgoingBody(JSON.stringify(internalErrorBody(known, callId))),
  };
}

function readErrorReply(headers: IncomingHeaders, body: unknown): ToolError | undefined {
  const status = headers.get(ERROR_CODE_HEADER);
  if (status === undefined) return undefined;
  const code = (body as { code?: unknown } | undefined)?.code;
  if (isErrorCode(code)) return errorFromBody(body);
  return new ToolError(FOREIGN[status] ?? 'INTERNAL', { message: headers.get(ERROR_HEADER) });
}

/** A progress report as it arrived, or undefined when it is not one. Unknown fields are dropped. */
export function readProgress(body: unknown): CallProgress | undefined {
  if (!isJsonObject(body)) return undefined;
  const { message, progress, total, task } = body;
  const found: CallProgress = {};
  if (typeof message === 'string') found.message = message;
  if (typeof progress === 'number') found.progress = progress;
  if (typeof total === 'number') found.total = total;
  if (isServerTask(task)) found.task = task;
  return Object.keys(found).length > 0 ? found : undefined;
}

function isServerTask(value: Json | undefined): value is JsonObject & ServerTask {
  if (!isJsonObject(value) || !isJsonObject(value['requests'])) return false;
  return [value['id'], value['server'], value['revision']].every((field) => typeof field === 'string');
}

export function decodeText(data: Uint8Array): string {
  const bytes = data instanceof Buffer ? data : Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  return bytes.toString();
}
