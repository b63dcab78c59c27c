import type { Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyInstance, FastifyReply } from 'fastify';
import { ToolError } from '@toolfleet/contracts';
import { errorBody } from '@toolfleet/contracts/wire';

/** Bounds of what connections may take. */
export interface ConnectionLimits {
  /** Longest time for a whole request to arrive, body included, in ms. */
  requestTimeoutMs: number;
  /** Open connections of this process. */
  maxConnections: number;
  /** Open connections from one address; 0 = no limit, for a proxy that limits by itself. */
  maxConnectionsPerAddress: number;
}

/** Requests whose headers are not complete by then are closed. */
const HEADERS_TIMEOUT_MS = 15_000;
/** How often Node looks for requests that are late. */
const LOOK_MS = 1_000;

/** Options of `http.createServer` for these limits. */
export function serverOptions({ requestTimeoutMs }: ConnectionLimits) {
  return {
    requestTimeout: requestTimeoutMs,
    headersTimeout: Math.min(HEADERS_TIMEOUT_MS, requestTimeoutMs),
    connectionsCheckingInterval: LOOK_MS,
  };
}

/** Closes connections beyond the limits as they arrive: those in use are never the ones that go. */
export function limitConnections(server: Server, limits: ConnectionLimits): void {
  server.maxConnections = limits.maxConnections;
  if (limits.maxConnectionsPerAddress === 0) return;
  const open = new Map<string, number>();
  server.on('connection', (socket: Socket) => {
    const address = socket.remoteAddress ?? '';
    const count = (open.get(address) ?? 0) + 1;
    if (count > limits.maxConnectionsPerAddress) return void socket.destroy();
    open.set(address, count);
    socket.once('close', () => {
      const left = open.get(address)! - 1;
      if (left > 0) open.set(address, left);
      else open.delete(address);
    });
  });
}

/** A client that takes nothing of its answer for so long is cut off: what waits for it is held in memory. */
export const STALLED_MS = 20_000;
/** Shorter answers fit into the buffers of the connection. */
const LARGE = 64 * 1024;

/** Closes connections whose clients stop reading a whole answer. Node restarts the time whenever some of it was taken. */
export function closeStalledAnswers(fastify: FastifyInstance): void {
  fastify.addHook('onSend', async (_request, reply, payload) => {
    const isLarge = (typeof payload === 'string' || Buffer.isBuffer(payload)) && payload.length > LARGE;
    if (isLarge) closeWhenStalled(reply.raw);
    return payload;
  });
}

/** Closes the connection of an answer that was written whole, or is about to be, when its client stops reading. */
export function closeWhenStalled(out: ServerResponse): void {
  const { socket } = out;
  if (!socket || out.writableFinished) return;
  socket.setTimeout(STALLED_MS);
  // Node sets the time of an idle connection by itself; a pipelined request that still runs has none.
  out.once('finish', () => {
    if (socket.timeout === STALLED_MS) socket.setTimeout(0);
  });
}

/** Resolves when the client has taken what was written, or its connection has ended; a stalled one is closed. */
export function drained(out: ServerResponse, stalledMs = STALLED_MS): Promise<void> {
  const { socket } = out;
  if (out.destroyed || !socket || !out.writableNeedDrain) return Promise.resolve();
  const { promise, resolve } = Promise.withResolvers<void>();
  // Without a listener for 'timeout' Node destroys the socket.
  socket.setTimeout(stalledMs);
  const done = (): void => {
    out.off('drain', done).off('close', done);
    socket.setTimeout(0);
    resolve();
  };
  out.on('drain', done).on('close', done);
  return promise;
}

const FAULT = JSON.stringify(errorBody(new ToolError('INTERNAL')));

/**
 * Takes a reply over from Fastify, whose own error handling ends there. When `work` is over the reply has ended, whatever
 * was thrown: with 500 if nothing was sent yet, else by closing the connection, so that no client takes half an answer for
 * a whole one. No other code may call `hijack()`.
 */
export async function takeOverReply(
  reply: FastifyReply,
  work: (raw: ServerResponse) => Promise<void> | void,
  onFault?: (error: unknown) => void,
): Promise<void> {
  reply.hijack();
  const { raw } = reply;
  try {
    await work(raw);
  } catch (error) {
    onFault?.(error);
    if (!raw.headersSent && !raw.destroyed)
      raw.writeHead(500, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(FAULT) }).end(FAULT);
  } finally {
    if (!raw.writableEnded) raw.destroy();
    else closeWhenStalled(raw);
  }
}
