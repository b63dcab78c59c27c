import { hash } from 'node:crypto';
import { Transform, type TransformCallback } from 'node:stream';
import { CATALOGUE, ToolError } from '@toolfleet/contracts';
import { errorBody } from '@toolfleet/contracts/wire';
import type { Clock } from '@toolfleet/resilience';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { type ArrivingBody, THREAD_BYTES } from './body-reader.js';
import { sendError } from './error.filter.js';
import {
  carriesBody,
  dropRest,
  isSmallBody,
  leaveUnread,
  tenantOf,
  type AuthenticatedRequest,
} from './request-body.js';

const RETRY_MS = 1_000;
/** A client that does not read its answer for this long is disconnected, because unread answers occupy memory. */
export const STALLED_MS = 20_000;
/** One tenant may have this part of the memory, but at least one body of the largest size. */
const TENANT_SHARE = 1 / 4;
/** Shorter responses fit into the buffers of the socket. */
const SMALL_RESPONSE = 64 * 1024;

/** Requests that are remembered because their responses did not fit. */
const MAX_REFUSED = 1_000;

const TOO_LARGE = { fault: 'nodes', message: 'The request body is too large' } as const;

/** Limits of the bytes that a process holds for callers. */
interface MemoryLimits {
  /** Maximum size of one body. */
  maxBodyBytes: number;
  /** All request bodies and unread responses above 64 KiB, and the unread events of streams. */
  maxBytes: number;
}

/** Counts the bytes that callers make this process hold, in total and per tenant: request bodies, unread responses and events. */
export class MemoryAccount {
  readonly #tenants = new Map<string, number>();
  readonly #tenantBytes: number;
  #total = 0;

  constructor(private readonly limits: MemoryLimits) {
    this.#tenantBytes = Math.max(limits.maxBodyBytes, Math.floor(limits.maxBytes * TENANT_SHARE));
  }

  /** Bytes that are counted now. */
  get total(): number {
    return this.#total;
  }

  /** Bytes of one tenant that are counted now. */
  held(tenantId: string): number {
    return this.#tenants.get(tenantId) ?? 0;
  }

  /** Why more bytes of a tenant do not fit; undefined if they do. */
  refusal(tenantId: string, bytes: number): ToolError | undefined {
    if (this.held(tenantId) + bytes > this.#tenantBytes) {
      const message = `Requests and unread responses of this tenant exceed ${this.#tenantBytes} bytes in this gateway; read responses, or retry later`;
      return new ToolError('RATE_LIMITED', { message, retryAfterMs: RETRY_MS });
    }
    if (this.#total + bytes > this.limits.maxBytes) {
      const message = `Requests and unread responses of all callers exceed ${this.limits.maxBytes} bytes; retry later`;
      return new ToolError('QUEUE_FULL', { message, retryAfterMs: RETRY_MS });
    }
    return undefined;
  }

  /** Counts bytes of a tenant. @returns why they do not fit; then nothing is counted */
  add(tenantId: string, bytes: number): ToolError | undefined {
    const refusal = this.refusal(tenantId, bytes);
    if (!refusal) this.hold(tenantId, bytes);
    return refusal;
  }

  /** Counts bytes that exist already, even beyond the limits: then the next requests are refused. */
  hold(tenantId: string, bytes: number): void {
    this.#tenants.set(tenantId, this.held(tenantId) + bytes);
    this.#total += bytes;
  }

  release(tenantId: string, bytes: number): void {
    const left = this.held(tenantId) - bytes;
    if (left > 0) this.#tenants.set(tenantId, left);
    else this.#tenants.delete(tenantId);
    this.#total -= bytes;
  }
}

declare module 'fastify' {
  interface FastifyInstance {
    /** The account of a server that bounds its memory. */
    memory?: MemoryAccount;
  }
}

/**
 * Bounds the memory that requests and responses of authenticated callers take together. Bodies up to 64 KiB are not counted, because
 * connection limits bound them, but they are refused while their tenant is beyond its share. Install it before routes are added.
 */
export function limitMemory(fastify: FastifyInstance, memory: MemoryAccount, clock: Clock): void {
  fastify.decorate('memory', memory);
  countRequests(fastify, memory, clock);
  countResponses(fastify, memory);
}

/**
 * Counts request bodies as they arrive, so that a declared length takes no memory from others. A body that does not fit is answered
 * with 429 or 503 and `Retry-After`, and its rest is left unread.
 */
function countRequests(fastify: FastifyInstance, memory: MemoryAccount, clock: Clock): void {
  fastify.addHook('preParsing', (request: AuthenticatedRequest, reply, payload, done) => {
    const { raw } = request;
    // Fastify refuses a body with too large a declared length before it reads any of it.
    const limit = request.routeOptions.bodyLimit;
    const isRefused = Number(raw.headers['content-length'] ?? 0) > limit;
    if (isRefused || !carriesBody(raw)) return done(null, payload);
    const tenantId = tenantOf(request);
    if (isSmallBody(raw)) {
      const refusal = memory.refusal(tenantId, 0);
      return refusal ? sendError(reply, request.url, refusal) : done(null, payload);
    }
    const { bodies } = fastify;
    let held = 0;
    let isEnough = false;
    /** The received chunks of a body that may be small enough to be read on the event loop. */
    const first: Buffer[] = [];
    let arriving: ArrivingBody | undefined;
    reply.raw.once('close', () => {
      memory.release(tenantId, held);
      arriving?.drop();
    });
    const receive = async (chunk: Buffer, next: TransformCallback): Promise<void> => {
      counted.receivedEncodedLength += chunk.length;
      if (arriving) {
        await arriving.take(chunk);
        return next();
      }
      await bodies.turn(tenantId);
      // The parser refuses a body beyond a limit that is so small.
      if (limit <= THREAD_BYTES) return next(null, chunk);
      first.push(chunk);
      if (counted.receivedEncodedLength > THREAD_BYTES && !reply.raw.destroyed) await moveToThread();
      next();
    };
    const moveToThread = async (): Promise<void> => {
      arriving = bodies.receive(tenantId);
      void arriving.refused.then(() => {
        if (reply.sent || reply.raw.destroyed || counted.writableEnded) return;
        // Its rest is dropped without those that wait here; the parser finds the fault at the end of what it gets.
        isEnough = true;
        dropRest(request);
        counted.receivedEncodedLength = Number(raw.headers['content-length']);
        counted.end();
      });
      for (const chunk of first.splice(0)) await arriving.take(chunk);
    };
    const counted = Object.assign(
      new Transform({
        transform(chunk: Buffer, _encoding, next) {
          if (isEnough || reply.sent || reply.raw.destroyed) return next();
          if (arriving && counted.receivedEncodedLength + chunk.length > limit) {
            arriving.drop(TOO_LARGE);
            return next();
          }
          const refusal = memory.add(tenantId, chunk.length);
          if (!refusal) {
            held += chunk.length;
            return void receive(chunk, next);
          }
          // The parser keeps waiting for an end that never comes; the response has left without it.
          payload.unpipe(counted);
          leaveUnread(raw, reply.raw, clock);
          sendError(reply, request.url, refusal);
        },
        flush(next) {
          if (arriving) request.reading = arriving.end();
          for (const chunk of first) counted.push(chunk);
          next();
        },
      }),
      // Fastify compares it with the declared length: the bytes of a body on the thread do not come to its parser.
      { receivedEncodedLength: 0 },
    );
    payload.once('error', (error) => counted.destroy(error));
    done(null, payload.pipe(counted));
  });
}

/**
 * Counts large responses until the client has read them. One that does not fit is replaced by 429 or 503 if the request can be
 * repeated without effect (GET); any other response is sent, because its call has run. A repeated request is refused before its
 * response is made again, as long as that would not fit: reading megabytes from the store costs more than all else of the request.
 */
function countResponses(fastify: FastifyInstance, memory: MemoryAccount): void {
  const refused = new Map<string, { tenantId: string; bytes: number }>();
  fastify.addHook('onRequest', (request, reply, done) => {
    if (refused.size === 0 || request.method !== 'GET') return done();
    const key = refusedKey(request);
    const known = refused.get(key);
    const refusal = known && memory.held(known.tenantId) > 0 ? memory.refusal(known.tenantId, known.bytes) : undefined;
    if (refusal) return sendError(reply, request.url, refusal);
    refused.delete(key);
    done();
  });
  fastify.addHook('onSend', (request: AuthenticatedRequest, reply, payload, done) => {
    const isWhole = typeof payload === 'string' || Buffer.isBuffer(payload);
    if (!isWhole || payload.length <= SMALL_RESPONSE) return done(null, payload);
    const bytes = Buffer.byteLength(payload);
    const tenantId = tenantOf(request);
    // A single response may be larger than the share, so the first is always sent.
    const isRepeatable = request.method === 'GET' && memory.held(tenantId) > 0;
    const refusal = isRepeatable ? memory.refusal(tenantId, bytes) : undefined;
    if (refusal) {
      for (const oldest of refused.size >= MAX_REFUSED ? refused.keys().take(1) : []) refused.delete(oldest);
      refused.set(refusedKey(request), { tenantId, bytes });
      const seconds = Math.ceil((refusal.retryAfterMs ?? RETRY_MS) / 1_000);
      void reply.status(CATALOGUE[refusal.code].http).headers({
        'Content-Type': 'application/json; charset=utf-8',
        'Retry-After': String(seconds),
      });
      reply.removeHeader('Content-Length').removeHeader('Content-Disposition');
      return done(null, JSON.stringify(errorBody(refusal)));
    }
    holdUntilClosed(reply, memory, tenantId, bytes);
    done(null, payload);
  });
}

/** The same for requests with the same URL and credential. */
const refusedKey = ({ url, headers }: FastifyRequest): string =>
  hash('sha256', JSON.stringify([url, headers.authorization, headers['x-api-key'], headers.cookie]));

/** Counts the bytes that a response written past Fastify left in this process, until its client has read them. */
export function holdUnsent(reply: FastifyReply): void {
  const { raw, server } = reply;
  const bytes = raw.writableLength + (raw.socket?.writableLength ?? 0);
  if (bytes > SMALL_RESPONSE && server.memory) holdUntilClosed(reply, server.memory, tenantOf(reply.request), bytes);
}

/** Counts a complete response, written or about to be written, until its connection ends. A client that stops reading is disconnected. */
function holdUntilClosed({ raw }: FastifyReply, memory: MemoryAccount, tenantId: string, bytes: number): void {
  // A client that has left takes nothing, and its connection does not close again.
  if (raw.closed || raw.destroyed) return;
  memory.hold(tenantId, bytes);
  raw.once('close', () => memory.release(tenantId, bytes));
  const { socket } = raw;
  if (!socket || raw.writableFinished) return;
  socket.setTimeout(STALLED_MS);
  // Node sets the timeout of idle connections; a pipelined request that still runs must have none.
  raw.once('finish', () => {
    if (socket.timeout === STALLED_MS) socket.setTimeout(0);
  });
}
