import { isUtf8 } from 'node:buffer';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { setImmediate } from 'node:timers/promises';
import { ToolError, type Json, isJsonObject, type JsonObject } from '@toolfleet/contracts';
import { BODY_EXCESS, bodyExcess, inexactNumber, inexactNumberMessage } from '@toolfleet/contracts/json-text';
import type { FastifyInstance } from 'fastify';
import type { Clock } from '@toolfleet/resilience';

/** `application/json` and types such as `application/vnd.api+json`, with parameters. */
const JSON_TYPE = /^application\/(?:[\w.-]+\+)?json\s*(?:;|$)/i;
const BYTE_ORDER_MARK = Buffer.from([0xef, 0xbb, 0xbf]);

/**
 * Accepts JSON bodies only. Keys such as `__proto__` are data, as over NATS and MCP: JSON.parse makes them own properties, and
 * tools refuse undeclared ones.
 */
export function acceptJsonBodies(fastify: FastifyInstance, maxBodyBytes: number): void {
  const options = { parseAs: 'buffer', bodyLimit: maxBodyBytes } as const;
  fastify.removeAllContentTypeParsers();
  const turns = new BodyTurns();
  fastify.addContentTypeParser(JSON_TYPE, options, async (_request: unknown, body: Buffer) => {
    if (body.length > SMALL_BYTES) await turns.next();
    return readJson(body);
  });
  fastify.addContentTypeParser(
    '*',
    options,
    async (request: { headers: { 'content-type'?: string } }, body: Buffer) => {
      if (body.length === 0) return undefined;
      const sent = request.headers['content-type'];
      throw invalid(`Content-Type must be application/json${sent === undefined ? '' : `, not '${sent}'`}`);
    },
  );
}

/**
 * Lets large bodies be parsed, and their calls begin, one in each turn of the event loop: what arrived meanwhile is served between
 * two of them.
 */
class BodyTurns {
  #last: Promise<void> = Promise.resolve();

  next(): Promise<void> {
    return (this.#last = this.#last.then(() => setImmediate()));
  }
}

/** Parses a body; undefined if it is empty. @throws ToolError REQUEST_INVALID, PAYLOAD_TOO_LARGE */
function readJson(body: Buffer): Json | undefined {
  if (body.length === 0) return undefined;
  // Decoding would turn invalid bytes into U+FFFD, so the tool would receive another text than the caller sent.
  if (!isUtf8(body)) throw invalid('The request body is not UTF-8');
  const excess = bodyExcess(body);
  if (excess && excess !== 'depth') throw new ToolError('PAYLOAD_TOO_LARGE', { message: BODY_EXCESS[excess] });
  const start = body.subarray(0, BYTE_ORDER_MARK.length).equals(BYTE_ORDER_MARK) ? BYTE_ORDER_MARK.length : 0;
  const text = body.toString('utf8', start);
  let value: Json;
  try {
    value = JSON.parse(text) as Json;
  } catch (error) {
    throw invalid(`The request body is not JSON: ${(error as Error).message}`);
  }
  if (excess === 'depth') throw invalid(BODY_EXCESS.depth);
  const inexact = inexactNumber(text);
  if (inexact !== undefined) throw invalid(inexactNumberMessage(inexact));
  return value;
}

const invalid = (message: string): ToolError => new ToolError('REQUEST_INVALID', { message });

/** @throws ToolError REQUEST_INVALID unless the body is a JSON object */
export function bodyObject(body: unknown): JsonObject {
  if (isJsonObject(body)) return body;
  throw new ToolError('REQUEST_INVALID', { message: 'The request body must be a JSON object' });
}

/** Time for which the connection of a refused body stays open. */
const LINGER_MS = 2_000;
/** Node discards the rest of a smaller body after the answer, and the connection stays usable. */
const SMALL_BYTES = 64 * 1024;

/** Whether a request has a body (RFC 9112 section 6.3). */
export function carriesBody({ headers }: IncomingMessage): boolean {
  if (headers['transfer-encoding'] !== undefined) return true;
  return headers['content-length'] !== undefined && headers['content-length'] !== '0';
}

/** Whether the declared length is at most 64 KiB; also true for requests without a body. */
export function isSmallBody({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] === undefined && Number(headers['content-length'] ?? 0) <= SMALL_BYTES;
}

/**
 * Leaves the rest of a large body unread, tells the client that the connection ends, and closes it a little later, when the client has
 * read its answer (RFC 9112 section 9.6). Call it before the answer is sent. Node discards small bodies itself.
 */
export function leaveUnread(body: IncomingMessage, answer: ServerResponse, clock: Clock): void {
  if (isSmallBody(body)) return;
  const { socket } = body;
  answer.setHeader('Connection', 'close');
  // Node would stop reading with the answer, and a client that still sends would see a reset instead of it.
  socket.destroySoon = () => void socket.end();
  // Node reads and drops the whole body after the answer unless reading has begun; this reads one buffer.
  body.read(0);
  const cancel = clock.after(LINGER_MS, () => socket.destroy());
  body.once('close', cancel);
}

/**
 * Reads and drops what a client still sends, for at most two seconds: if the connection ended right after an early answer, the
 * client would see a broken pipe instead of the answer.
 */
export async function discardBody(body: IncomingMessage, clock: Clock): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const cancel = clock.after(LINGER_MS, resolve);
  body.once('end', resolve).once('close', resolve).resume();
  if (!body.readableEnded && !body.destroyed) await promise;
  cancel();
}
