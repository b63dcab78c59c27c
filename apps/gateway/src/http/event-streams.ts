import type { ServerResponse } from 'node:http';
import { ToolError, type Principal } from '@toolfleet/contracts';
import type { FastifyReply } from 'fastify';
import type { CredentialWatch } from '../auth/credential-status.js';
import { takeOverReply, drained } from './connections.js';

/** One server-sent event. */
interface ServerEvent {
  id: string;
  type: string;
  data: unknown;
}

/** Formats an event (HTML, section 9.2 Server-sent events). */
export function eventFrame({ id, type, data }: ServerEvent): string {
  return `id: ${id}\nevent: ${type}\ndata: ${JSON.stringify(data)}\n\n`;
}

/** Limits of the open streams of one gateway. */
interface StreamLimits {
  /** Open streams of all tenants. */
  maxStreams: number;
  /** Open streams of one tenant. */
  maxStreamsPerTenant: number;
  /** Time in ms after which a client that reads nothing is disconnected. Default 20,000. */
  stalledMs?: number;
}

/** Most unread bytes of one tenant; a stream that would exceed it is closed, and its client resumes. */
const MAX_UNREAD_BYTES = 16 * 1024 * 1024;
const RETRY_MS = 5_000;

interface TenantStreams {
  open: number;
  unreadBytes: number;
}

/**
 * All event streams of a gateway: of calls, of recent calls, of MCP subscriptions. The number of streams is limited per tenant,
 * and so are unread bytes, which wait in this process. A stream ends within 5 s of the revocation or expiry of the credential
 * that opened it.
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
   * Counts a new stream of this caller.
   * @param onVoid must end the stream: its credential was revoked or has expired
   * @returns a function that ends the count
   * @throws ToolError QUEUE_FULL when there are too many streams
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
   * Answers with a stream of server-sent events that ends with `work`.
   * @throws ToolError QUEUE_FULL, before the answer begins
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
          // Keeps proxies from buffering the events.
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
    // A client that reads nothing would delay an orderly end.
    voided.addEventListener('abort', () => raw.writableNeedDrain && raw.destroy(), { once: true });
  }

  /** Whether the client has disconnected, or the credential that opened the stream is no longer valid. */
  get closed(): boolean {
    return this.raw.destroyed || this.voided.aborted;
  }

  /** Writes one frame; resolves when the client has read it, so that at most one frame per stream waits. */
  async send(frame: string): Promise<void> {
    if (this.closed) return;
    const bytes = Buffer.byteLength(frame);
    // A single frame may be as large as a result, so the first is always admitted.
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
