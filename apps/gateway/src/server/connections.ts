import { maxHeaderSize, STATUS_CODES, type OutgoingHttpHeaders, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyInstance, FastifyReply } from 'fastify';
import { ToolError } from '@toolfleet/contracts';
import { errorBody } from '@toolfleet/contracts/wire';
import { holdUnsent, STALLED_MS } from './memory-account.js';

/** Limits of connections. */
export interface ConnectionLimits {
  /** Longest time for a whole request to arrive, body included, in ms. */
  requestTimeoutMs: number;
  /** Longest idle time of a connection between two requests, in ms. */
  keepAliveMs: number;
  /** Open connections of this process. As many may wait to be accepted, up to `net.core.somaxconn` of the system. */
  maxConnections: number;
  /** Open connections from one address; 0 = no limit, for a proxy that limits by itself. */
  maxConnectionsPerAddress: number;
}

/** Time for the headers of a request to arrive. */
const HEADERS_TIMEOUT_MS = 15_000;
/** Interval in which Node checks for late requests. */
const LOOK_MS = 1_000;

/** Options of `http.createServer` for these limits. */
export function serverOptions({ requestTimeoutMs }: ConnectionLimits) {
  return {
    requestTimeout: requestTimeoutMs,
    headersTimeout: Math.min(HEADERS_TIMEOUT_MS, requestTimeoutMs),
    connectionsCheckingInterval: LOOK_MS,
  };
}

/** Status and message by the code of Node. */
const UNREADABLE: Readonly<Record<string, readonly [status: number, message: string]>> = {
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'The request did not arrive in time'],
  HPE_HEADER_OVERFLOW: [431, `The path and headers are longer than ${maxHeaderSize} bytes`],
};

/** Answers a request that Node could not read with the body of every error, and closes its connection. */
export function refuseUnreadable(error: Error & { code?: string }, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) return void socket.destroy(error);
  const [status, message] = UNREADABLE[error.code ?? ''] ?? [400, `The request is not HTTP/1.1: ${error.message}`];
  const body = JSON.stringify(errorBody(new ToolError('REQUEST_INVALID', { message })));
  const head = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nConnection: close\r\nContent-Type: application/json`;
  socket.write(`${head}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
  socket.destroySoon();
}

/** Closes new connections beyond the limits; open ones are not affected. */
export function limitConnections(server: Server, limits: ConnectionLimits, onRefused: () => void): void {
  server.maxConnections = limits.maxConnections;
  server.on('drop', onRefused);
  if (limits.maxConnectionsPerAddress === 0) return;
  const open = new Map<string, number>();
  server.on('connection', (socket: Socket) => {
    const address = socket.remoteAddress ?? '';
    const count = (open.get(address) ?? 0) + 1;
    if (count > limits.maxConnectionsPerAddress) {
      onRefused();
      return void socket.destroy();
    }
    open.set(address, count);
    socket.once('close', () => {
      const left = open.get(address)! - 1;
      if (left > 0) open.set(address, left);
      else open.delete(address);
    });
  });
}

/** Closes the connections of a draining server with their answers. */
export function closeWithAnswers(fastify: FastifyInstance): void {
  fastify.addHook('onSend', (_request, reply, payload, done) => {
    if (!fastify.server.listening) reply.raw.shouldKeepAlive = false;
    done(null, payload);
  });
}

/** Resolves when the client has read all written bytes, or the connection has ended. A stalled connection is closed. */
export function drained(out: ServerResponse, stalledMs = STALLED_MS): Promise<void> {
  const { socket } = out;
  if (out.destroyed || !socket || !out.writableNeedDrain) return Promise.resolve();
  const { promise, resolve } = Promise.withResolvers<void>();
  // On timeout Node destroys the socket, because there is no listener for 'timeout'.
  socket.setTimeout(stalledMs);
  const done = (): void => {
    out.off('drain', done).off('close', done);
    socket.setTimeout(0);
    resolve();
  };
  out.on('drain', done).on('close', done);
  return promise;
}

/** The newest response of each connection, and the number of requests that wait behind it. */
export type ConnectionQueues = WeakMap<Socket, { last: ServerResponse; waiting: number }>;

/** Requests of one connection that wait for the response before them; a client that sends more is disconnected. */
const MAX_PIPELINED = 32;

/**
 * Serves the requests of a connection one after the other. Node passes on every pipelined request at once, so that one connection
 * could make the process hold the responses of hundreds. Install it before all other hooks.
 */
export function serveInOrder(fastify: FastifyInstance, connections: ConnectionQueues): void {
  fastify.addHook('onRequest', (request, reply, done) => {
    const { socket } = request.raw;
    const known = connections.get(socket);
    const before = known?.last;
    if (!known || !before || before.closed) {
      if (known) known.last = reply.raw;
      else connections.set(socket, { last: reply.raw, waiting: 0 });
      return done();
    }
    known.waiting += 1;
    known.last = reply.raw;
    if (known.waiting > MAX_PIPELINED) return void socket.destroy();
    before.once('close', () => {
      known.waiting -= 1;
      if (!socket.destroyed) done();
    });
  });
}

/** Characters from which a response is encoded once; a shorter one shares Node's write with its head. */
const LONG_RESPONSE = 16_384;

/** Writes a whole JSON response. */
export function writeJson(out: ServerResponse, status: number, json: string, more: OutgoingHttpHeaders = {}): void {
  const { 'content-type': type = 'application/json' } = more;
  const body = json.length < LONG_RESPONSE ? json : Buffer.from(json);
  const headers = { ...more, 'content-type': type, 'content-length': Buffer.byteLength(body) };
  out.writeHead(status, headers).end(body);
}

const FAULT = JSON.stringify(errorBody(new ToolError('INTERNAL')));

/**
 * Takes a reply over from Fastify, with its error handling. If `work` throws, the reply ends with 500 if
 * nothing was sent yet, else by closing the connection, so that no client mistakes half an answer for a complete one. No
 * other code may call `hijack()`.
 */
export async function takeOverReply(
  reply: FastifyReply,
  work: (raw: ServerResponse) => Promise<void> | void,
  onFault?: (error: unknown) => void,
): Promise<void> {
  reply.hijack();
  const { raw } = reply;
  if (!reply.server.server.listening) raw.shouldKeepAlive = false;
  try {
    await work(raw);
  } catch (error) {
    onFault?.(error);
    if (!raw.headersSent && !raw.destroyed) writeJson(raw, 500, FAULT);
  } finally {
    if (!raw.writableEnded) raw.destroy();
    else holdUnsent(reply);
  }
}
