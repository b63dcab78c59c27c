import type { IncomingMessage, ServerResponse } from 'node:http';
import { Writable } from 'node:stream';
import { ToolError, isJsonObject, type JsonObject, type Principal } from '@toolfleet/contracts';
import { bodyError, type JsonReading } from '@toolfleet/contracts/json-text';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Clock } from '@toolfleet/resilience';
import { freeMemory } from '@toolfleet/transport';
import { type BodyReader, SMALL_BYTES } from './body-reader.js';

/** `application/json` and types such as `application/vnd.api+json`, with parameters. */
const JSON_TYPE = /^application\/(?:[\w.-]+\+)?json\s*(?:;|$)/i;

/**
 * Accepts JSON bodies only. Keys such as `__proto__` are data, as over NATS and MCP: JSON.parse makes them own properties, and
 * tools refuse undeclared ones.
 */
export function acceptJsonBodies(fastify: FastifyInstance, maxBodyBytes: number, bodies: BodyReader): void {
  const options = { parseAs: 'buffer', bodyLimit: maxBodyBytes } as const;
  fastify.removeAllContentTypeParsers();
  fastify.decorate('bodies', bodies);
  fastify.addContentTypeParser(JSON_TYPE, options, async (request: AuthenticatedRequest, body: Buffer) => {
    const reading = await readBody(request, body);
    if (reading?.fault !== undefined) throw bodyError(reading);
    return reading?.value;
  });
  fastify.addContentTypeParser('*', options, async (request: FastifyRequest, body: Buffer) => {
    if (body.length === 0 && !request.reading) return undefined;
    const sent = request.headers['content-type'];
    throw invalid(`Content-Type must be application/json${sent === undefined ? '' : `, not '${sent}'`}`);
  });
}

declare module 'fastify' {
  interface FastifyInstance {
    /** Reads the JSON bodies of this server. */
    bodies: BodyReader;
  }
  interface FastifyRequest {
    /** The body, if it was so large that it went to the thread; the bytes are empty then. */
    reading?: Promise<JsonReading>;
  }
}

/** The JSON body of a request; undefined if it has none. */
export async function readBody(request: AuthenticatedRequest, bytes: Buffer): Promise<JsonReading | undefined> {
  if (request.reading) return request.reading;
  return bytes.length === 0 ? undefined : request.server.bodies.read(tenantOf(request), bytes);
}

/** Who sent a request: both entry points prove it before the body is read. */
export type AuthenticatedRequest = FastifyRequest & { principal?: Principal; mcpCaller?: Principal };

/** The tenant of the sender; empty for the holder of the registration token. */
export const tenantOf = (request: AuthenticatedRequest): string =>
  (request.principal ?? request.mcpCaller)?.tenantId ?? '';

const invalid = (message: string): ToolError => new ToolError('REQUEST_INVALID', { message });

/** @throws ToolError REQUEST_INVALID unless the body is a JSON object */
export function bodyObject(body: unknown): JsonObject {
  if (isJsonObject(body)) return body;
  throw new ToolError('REQUEST_INVALID', { message: 'The request body must be a JSON object' });
}

/** Time for which the connection of a refused body stays open. */
const LINGER_MS = 2_000;

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
 * Reads and drops the bytes that a client still sends, for at most two seconds: if the connection ended right after an early answer, the
 * client would see a broken pipe instead of the answer.
 */
export async function discardBody(request: AuthenticatedRequest, clock: Clock): Promise<void> {
  const { raw: body } = request;
  const { promise, resolve } = Promise.withResolvers<void>();
  const cancel = clock.after(LINGER_MS, resolve);
  body.once('end', resolve).once('close', resolve);
  if (!body.readableEnded && !body.destroyed) {
    dropRest(request);
    await promise;
  }
  cancel();
}

/** Reads and drops the rest of a body, one chunk per turn of its tenant. */
export function dropRest(request: AuthenticatedRequest): void {
  const drop = async (chunk: Buffer, next: () => void): Promise<void> => {
    freeMemory(chunk);
    await request.server.bodies.turn(tenantOf(request));
    next();
  };
  request.raw.unpipe();
  request.raw.pipe(new Writable({ write: (chunk: Buffer, _encoding, next) => void drop(chunk, next) }));
}
