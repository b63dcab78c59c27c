import { Transform } from 'node:stream';
import { ToolError, type Principal } from '@toolfleet/contracts';
import type { Clock } from '@toolfleet/resilience';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { sendError } from './error.filter.js';
import { isSmallBody, leaveUnread } from './request-body.js';

const RETRY_MS = 1_000;
/** One tenant may have this part of the memory, but at least one body of the largest size. */
const TENANT_SHARE = 1 / 4;

/** Bounds of the request bodies that a process holds. */
export interface BodyMemoryLimits {
  /** Largest single body. */
  maxBodyBytes: number;
  /** All bodies above 64 KiB together, from their first byte to the end of their response. */
  maxBodiesBytes: number;
}

/** Counts the bytes of request bodies in memory, in total and per tenant. */
export class BodyMemory {
  readonly #tenants = new Map<string, number>();
  readonly #tenantBytes: number;
  #total = 0;

  constructor(private readonly limits: BodyMemoryLimits) {
    this.#tenantBytes = Math.max(limits.maxBodyBytes, Math.floor(limits.maxBodiesBytes * TENANT_SHARE));
  }

  /** Bytes that are counted now. */
  get total(): number {
    return this.#total;
  }

  /** Counts bytes of a tenant. @returns why they do not fit; then nothing is counted */
  add(tenantId: string, bytes: number): ToolError | undefined {
    const held = this.#tenants.get(tenantId) ?? 0;
    if (held + bytes > this.#tenantBytes) {
      const message = `The request bodies of this tenant exceed ${this.#tenantBytes} bytes in this gateway; retry later`;
      return new ToolError('RATE_LIMITED', { message, retryAfterMs: RETRY_MS });
    }
    if (this.#total + bytes > this.limits.maxBodiesBytes) {
      const message = `The request bodies of all callers exceed ${this.limits.maxBodiesBytes} bytes; retry later`;
      return new ToolError('QUEUE_FULL', { message, retryAfterMs: RETRY_MS });
    }
    this.#tenants.set(tenantId, held + bytes);
    this.#total += bytes;
    return undefined;
  }

  release(tenantId: string, bytes: number): void {
    const left = (this.#tenants.get(tenantId) ?? 0) - bytes;
    if (left > 0) this.#tenants.set(tenantId, left);
    else this.#tenants.delete(tenantId);
    this.#total -= bytes;
  }
}

/** Who sent a request: both entry points prove it before the body is read. */
type ProvedRequest = FastifyRequest & { principal?: Principal; mcpCaller?: Principal };

/**
 * Bounds the memory that the bodies of authenticated callers take together. Bytes count as they arrive, so that a declared
 * length takes no memory from others. A body that does not fit is answered with 429 or 503 and `Retry-After`, and its rest is left
 * unread. Bodies up to 64 KiB are not counted: connection limits bound them. Install it before routes are added.
 */
export function limitBodyMemory(fastify: FastifyInstance, limits: BodyMemoryLimits, clock: Clock): void {
  const memory = new BodyMemory(limits);
  fastify.addHook('preParsing', (request: ProvedRequest, reply, payload, done) => {
    const { raw } = request;
    // Fastify refuses a body whose declared length is too large before it reads any of it.
    const isRefused = Number(raw.headers['content-length'] ?? 0) > limits.maxBodyBytes;
    if (isSmallBody(raw) || isRefused) return done(null, payload);
    const tenantId = (request.principal ?? request.mcpCaller)?.tenantId ?? '';
    let held = 0;
    reply.raw.once('close', () => memory.release(tenantId, held));
    const counted = new Transform({
      transform(chunk: Buffer, _encoding, next) {
        if (reply.sent || reply.raw.destroyed) return next();
        const refusal = memory.add(tenantId, chunk.length);
        if (!refusal) {
          held += chunk.length;
          return next(null, chunk);
        }
        // The parser keeps waiting for an end that never comes; the response has left without it.
        payload.unpipe(counted);
        leaveUnread(raw, clock);
        sendError(reply, request.url, refusal);
      },
    });
    payload.once('error', (error) => counted.destroy(error));
    done(null, payload.pipe(counted));
  });
}
