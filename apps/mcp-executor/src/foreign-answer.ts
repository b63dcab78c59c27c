/**
 * Answers of servers on their way to the SDK. It refuses a whole message of which its schemas refuse one member, and takes no body of an HTTP
 * error for an answer; the request would end without its answer, after a tool may have run. Only the members that this executor needs are read.
 */
import { randomUUID } from 'node:crypto';
import {
  ReadBuffer,
  type JSONRPCErrorResponse,
  type JSONRPCMessage,
  type JSONRPCResultResponse,
  type RequestId,
} from '@modelcontextprotocol/client';
import { isJsonObject, type Json, type JsonObject } from '@toolfleet/contracts';
import { isNestedTooDeep, parseExact, type ParsedText, toExactJson, toMarked } from '@toolfleet/contracts/json-text';
import type { EgressResponse, FetchedResponse } from '@toolfleet/egress';

type AnswerBytes = JSONRPCResultResponse | JSONRPCErrorResponse;

/**
 * The answer in a message: its result as an object, or its error with a code and a message. Members that JSON-RPC does not have are left out,
 * and a null counts as absent.
 * @param id of the request; without it any answer is read
 * @param isOnly the message can answer no other request, and needs no id
 * @returns undefined for other messages, and for answers to other requests
 */
export function readAnswer(message: Json, id?: RequestId, isOnly = false): AnswerBytes | undefined {
  if (!isJsonObject(message) || typeof message['method'] === 'string') return undefined;
  if (!('result' in message || 'error' in message)) return undefined;
  const { id: own, result = null, error = null } = message;
  const isNamed = typeof own === 'string' || typeof own === 'number';
  if (id === undefined ? !isNamed : isNamed || !isOnly ? String(own) !== String(id) : false) return undefined;
  const head = { jsonrpc: '2.0', id: id ?? (own as RequestId) } as const;
  if (error !== null) return { ...head, error: readError(error) };
  // A value without the members of a result is the content.
  if (!isJsonObject(result)) return { ...head, result: { content: result } };
  const { _meta, ...rest } = result;
  return { ...head, result: _meta === undefined || isJsonObject(_meta) ? result : rest };
}

/** The id of the request that an answer may leave out. */
type ReadId = () => RequestId | undefined;

/** A message of a server as the SDK accepts it: an answer, a request or a notification. The same value if nothing has to be mended. */
function readMessage(message: Json, readId: ReadId): Json {
  if (!isJsonObject(message)) return message;
  const { jsonrpc, method, params } = message;
  // The SDK repeats the id of a server's request in its answer.
  const id = toMarked(message['id']);
  const isNamed = typeof id === 'string' || typeof id === 'number';
  if (typeof method !== 'string') {
    // An answer with neither a result nor an error ends its request, too.
    const named = jsonrpc === undefined ? message : { result: null, ...message };
    const answer = isNamed ? readAnswer(named) : readAnswer(message, readId(), true);
    return answer && !isAsIs(message, answer) ? ({ ...answer } as JsonObject) : message;
  }
  const read: JsonObject = { jsonrpc: '2.0', method };
  if (isNamed) read['id'] = id;
  if (isJsonObject(params)) read['params'] = params;
  const isAsSent = jsonrpc === '2.0' && id === message['id'];
  return isAsSent && Object.keys(read).length === Object.keys(message).length ? message : read;
}

/** Whether an answer is read as it arrived. */
function isAsIs(message: JsonObject, answer: AnswerBytes): boolean {
  if ('error' in answer || message['jsonrpc'] !== '2.0' || message['id'] !== answer.id) return false;
  return Object.keys(message).length === 3 && answer.result === message['result'];
}

/** Servers may define codes of errors from here on (JSON-RPC 2.0, section 5.1). */
const SERVER_ERROR = -32_000;

function readError(error: Json): JSONRPCErrorResponse['error'] {
  const { code, message, data } = isJsonObject(error) ? error : ({ message: error } satisfies JsonObject);
  return {
    code: Number.isSafeInteger(code) ? (code as number) : SERVER_ERROR,
    message: typeof message === 'string' ? message : JSON.stringify(error),
    data,
  };
}

/** The id of the request in a body that the SDK sends; undefined for notifications. */
export function readRequestId(body: unknown): RequestId | undefined {
  const message = typeof body === 'string' ? (JSON.parse(body) as Json) : null;
  return isJsonObject(message) && 'method' in message ? (message['id'] as RequestId | undefined) : undefined;
}

/** Media type of a response, in lower case and without parameters. */
export function mediaType({ headers }: Pick<EgressResponse, 'headers'>): string | undefined {
  const type = headers['content-type'];
  return typeof type === 'string' ? type.split(';', 1)[0]?.trim().toLowerCase() : undefined;
}

/**
 * A response as the SDK can read it. An answer to the request ends the request, whatever its HTTP status and media type are. Exceptions are
 * 401 and 403 with a challenge: the server has not applied such a request (RFC 9110, section 15.5.2).
 * @param readId the id of the request; undefined for notifications
 */
export async function toReadable(response: EgressResponse, readId: ReadId): Promise<FetchedResponse> {
  const { status, headers, body } = response;
  if (status >= 200 && status < 300 && status !== 202) {
    const type = mediaType(response);
    if (type === 'text/event-stream') return { ...response, body: repairedStream(body, readId) };
    if (type === 'application/json') return { ...response, body: bodyOf(readableJson(await body.bytes(), readId)) };
  }
  const id = status === 401 || 'www-authenticate' in headers ? undefined : readId();
  const text = id === undefined ? '' : await body.text().catch(() => '');
  const answer = id === undefined ? undefined : findAnswer(text, id);
  if (id === undefined) return response;
  if (!answer) return { ...response, body: bodyOf(Buffer.from(text)) };
  const asJson = { ...headers, 'content-type': 'application/json' };
  return { ...response, status: 200, headers: asJson, body: bodyOf(Buffer.from(JSON.stringify(packed(answer)))) };
}

type Body = FetchedResponse['body'];

const bodyOf = (bytes: Uint8Array): Body => ({
  cancel: () => undefined,
  async *[Symbol.asyncIterator]() {
    yield bytes;
  },
});

const repairedStream = (body: Body, readId: ReadId): Body => ({
  cancel: () => body.cancel(),
  [Symbol.asyncIterator]() {
    const chunks = body[Symbol.asyncIterator]();
    const lines = new CompleteLines();
    // Not a generator: it would add promises to each chunk of each call.
    return {
      async next(): Promise<IteratorResult<Uint8Array>> {
        for (;;) {
          const { done, value } = await chunks.next();
          const complete = done ? lines.end() : lines.push(value);
          if (complete) return { done: false, value: repaired(complete, LINE, readId) };
          if (done) return { done, value: undefined };
        }
      },
    };
  },
});

/** A message in a text: all of it, or a line of a local process or of the data of an event. */
const WHOLE = /^(\s*)([^]+)$/g;
const LINE = /^(data: ?)?([^\r\n]+)/gm;

/** Member of a result that has large integers: the JSON of the result. The SDK would round them, and does not read this. */
const EXACT = `exact-${randomUUID()}`;

/** An answer for the SDK, from which `unpackExact` gets the result. */
function packed<T>(message: T): T {
  if (!isJsonObject(message) || !('result' in message)) return message;
  return { ...message, result: { [EXACT]: toExactJson(message['result']) } };
}

/** Puts the result with its large integers into an answer that the SDK has parsed. */
export function unpackExact(message: JSONRPCMessage): void {
  if (!('result' in message)) return;
  const text = message.result[EXACT];
  if (typeof text === 'string') message.result = parseExact<JsonObject>(text).value;
}

/** The answer to a request in the text of a response: JSON, a batch of it, or events. */
function findAnswer(text: string, id: RequestId): AnswerBytes | undefined {
  for (const json of [text, ...Array.from(text.matchAll(LINE), ([, , line = '']) => line)]) {
    const { value = null } = parse(json) ?? {};
    for (const message of Array.isArray(value) ? value : [value]) {
      const answer = readAnswer(message, id);
      if (answer) return answer;
    }
  }
  return undefined;
}

/** A text with all messages in it as `readMessage` reads them. */
function repaired(bytes: Buffer, pattern: RegExp, readId: ReadId): Buffer {
  let isMended = false;
  const text = bytes.toString().replaceAll(pattern, (whole: string, prefix = '', json: string) => {
    const parsed = parse(json);
    if (!parsed) return whole;
    const { value, hasLarge } = parsed;
    if (hasLarge && isNestedTooDeep(value)) return whole;
    const readOne = (message: Json): Json => {
      const read = readMessage(message, readId);
      return hasLarge ? packed(read) : read;
    };
    const read = Array.isArray(value) ? value.map(readOne) : readOne(value);
    const isSame = Array.isArray(read)
      ? read.every((message, at) => message === (value as Json[])[at])
      : read === value;
    if (isSame && !hasLarge) return whole;
    isMended = true;
    return prefix + JSON.stringify(read);
  });
  return isMended ? Buffer.from(text) : bytes;
}

/** A JSON text of one message or a batch, as the SDK can read it. */
export function readableJson(bytes: Buffer, readId: ReadId): Buffer {
  return repaired(bytes, WHOLE, readId);
}

/** The value of a JSON text of messages; undefined if it is none. */
function parse(json: string): ParsedText | undefined {
  const first = json.trimStart()[0];
  if (first !== '{' && first !== '[') return undefined;
  try {
    return parseExact(json);
  } catch {
    return undefined;
  }
}

const LINE_FEED = 10;
const CARRIAGE_RETURN = 13;
/** Bytes of a line that are held back; a longer line is passed on unread. */
const MAX_LINE_BYTES = 8 * 1024 * 1024;

/** Lines that arrive in chunks. They are passed on as soon as they are complete. */
class CompleteLines {
  #held: Uint8Array[] = [];
  #size = 0;

  /** Adds a chunk. @returns the lines that it completes, if any */
  push(chunk: Uint8Array): Buffer | undefined {
    const end = Math.max(chunk.lastIndexOf(LINE_FEED), chunk.lastIndexOf(CARRIAGE_RETURN)) + 1;
    this.#hold(chunk.subarray(0, end || chunk.length));
    if (end === 0 && this.#size <= MAX_LINE_BYTES) return undefined;
    const lines = this.end();
    if (end > 0 && end < chunk.length) this.#hold(chunk.subarray(end));
    return lines;
  }

  /** The rest: a line without an end. */
  end(): Buffer | undefined {
    if (this.#size === 0) return undefined;
    const rest = Buffer.concat(this.#held, this.#size);
    this.#held = [];
    this.#size = 0;
    return rest;
  }

  #hold(chunk: Uint8Array): void {
    this.#held.push(chunk);
    this.#size += chunk.length;
  }
}

/** Output of a local process, with mended messages. */
export class RepairingReadBuffer extends ReadBuffer {
  readonly #lines = new CompleteLines();
  #answer: AnswerBytes | undefined;

  /** @param readId the only request that has no answer yet */
  constructor(private readonly readId: ReadId) {
    super();
  }

  /** Adds a chunk, of which all messages are read before the next. */
  override append(chunk: Buffer): void {
    const lines = this.#lines.push(chunk);
    if (!lines) return;
    // An answer alone, as most are, needs no schema of the SDK.
    if (lines.indexOf(LINE_FEED) === lines.length - 1)
      this.#answer = readAnswer(parse(lines.toString())?.value ?? null);
    if (!this.#answer) super.append(repaired(lines, LINE, this.readId));
  }

  override readMessage(): JSONRPCMessage | null {
    const answer = this.#answer;
    this.#answer = undefined;
    return answer ?? super.readMessage();
  }
}
