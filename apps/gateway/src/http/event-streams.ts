import type { ServerResponse } from 'node:http';
import { ToolError, type Principal } from '@toolfleet/contracts';
import type { FastifyReply } from 'fastify';
import type { CredentialWatch } from '../auth/credential-status.js';
import { takeOverReply, drained } from './connections.js';

/** One server-sent event. */
export interface ServerEvent {
  id: string;
  type: string;
  data: unknown;
}

/** The text of an event. */
export function eventFrame({ id, type, data }: ServerEvent): string {
  return `id: ${id}\nevent: ${type}\ndata: ${JSON.stringify(data)}\n\n`;
}

/** Bounds of all open streams of one gateway. */
export interface StreamLimits {
  /** Open streams in all. */
  maxStreams: number;
  /** Open streams of one tenant. */
  maxStreamsPerTenant: number;
  /** A client that takes nothing for so long is cut off. Default 20,000 ms. */
  stalledMs?: number;
}

/** Bytes that wait for the clients of one tenant; a stream that would add more is closed, and its client resumes. */
const MAX_UNREAD_BYTES = 16 * 1024 * 1024;
const RETRY_MS = 5_000;

interface TenantStreams {
  open: number;
  unreadBytes: number;
}

/**
 * Every event stream of a gateway: of calls, of recent calls, of MCP subscriptions. A tenant has a share of them, so that it
 * cannot take those of others, and what its clients do not read is bounded, because it waits in this process. A stream ends within
 * 5 s of the revocation or expiry of the credential that opened it.
 */
export class EventStreams {
  readonly #tenants = new Map<string, TenantStreams>();
  #open = 0;

  constructor(
    private readonly limits: StreamLimits,
    private readonly credentials?: Pick<CredentialWatch, 'watch'>,
  ) {}

  /** Open streams. */
  get open(): number {
    return this.#open;
  }

  /**
   * Takes a place for a stream of this caller; the returned function gives it back. `onVoid` has to end the stream: its
   * credential is revoked or has expired.
   * @throws ToolError QUEUE_FULL
   */
  enter(caller: Principal, onVoid: () => void): () => void {
    const { tenantId } = caller;
    const { maxStreams, maxStreamsPerTenant } = this.limits;
    const tenant = this.#tenants.get(tenantId) ?? { open: 0, unreadBytes: 0 };
    if (this.#open >= maxStreams) throw tooMany(`${maxStreams} event streams are open`);
    if (tenant.open >= maxStreamsPerTenant) throw tooMany(`Your tenant has ${maxStreamsPerTenant} open event streams`);
    this.#tenants.set(tenantId, tenant);
    this.#open += 1;
    tenant.open += 1;
    const unwatch = this.credentials?.watch(caller, onVoid);
    let isOpen = true;
    return () => {
      if (!isOpen) return;
      isOpen = false;
      unwatch?.();
      this.#open -= 1;
      tenant.open -= 1;
      if (tenant.open === 0) this.#tenants.delete(tenantId);
    };
  }

  /**
   * Answers with a stream of server-sent events, which ends when `work` does.
   * @throws ToolError QUEUE_FULL before the answer begins
   */
  async serve(caller: Principal, reply: FastifyReply, work: (stream: EventStream) => Promise<void>): Promise<void> {
    const voided = new AbortController();
    const leave = this.enter(caller, () => voided.abort());
    try {
      const tenant = this.#tenants.get(caller.tenantId)!;
      await takeOverReply(reply, async (raw) => {
        raw.writeHead(200, {
          ...(reply.getHeaders() as Record<string, string>),
          'Content-Type': 'text/event-stream; charset=utf-8',
          'Cache-Control': 'no-store',
          // Proxies are told not to gather the events.
          'X-Accel-Buffering': 'no',
        });
        await work(new EventStream(raw, tenant, voided.signal, this.limits.stalledMs));
        raw.end();
      });
    } finally {
      leave();
    }
  }
}

/** One stream of server-sent events. */
export class EventStream {
  constructor(
    private readonly raw: ServerResponse,
    private readonly tenant: TenantStreams,
    private readonly voided: AbortSignal,
    private readonly stalledMs: number | undefined,
  ) {
    // A client that takes nothing would hold up its orderly end.
    voided.addEventListener('abort', () => raw.writableNeedDrain && raw.destroy(), { once: true });
  }

  /** True when the client has left or was cut off, and when the credential that opened the stream is void. */
  get closed(): boolean {
    return this.raw.destroyed || this.voided.aborted;
  }

  /** Writes one frame; resolves when the client has taken it, so that at most one frame of a stream waits. */
  async send(frame: string): Promise<void> {
    if (this.closed) return;
    const bytes = Buffer.byteLength(frame);
    // One frame alone may be as large as a result.
    if (this.tenant.unreadBytes > 0 && this.tenant.unreadBytes + bytes > MAX_UNREAD_BYTES) {
      this.raw.destroy();
      return;
    }
    this.tenant.unreadBytes += bytes;
    try {
      if (!this.raw.write(frame)) await drained(this.raw, this.stalledMs);
    } finally {
      this.tenant.unreadBytes -= bytes;
    }
  }
}

const tooMany = (message: string): ToolError => new ToolError('QUEUE_FULL', { message, retryAfterMs: RETRY_MS });
