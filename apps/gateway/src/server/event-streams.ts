import type { ServerResponse } from 'node:http';
import { ToolError, type Principal } from '@toolfleet/contracts';
import type { FastifyReply } from 'fastify';
import type { CredentialWatch } from '@toolfleet/access';
import { FairSlots } from '@toolfleet/resilience';
import { takeOverReply, drained } from './connections.js';
import type { MemoryAccount } from './memory-account.js';

/** One server-sent event. */
interface StreamEvent {
  id: string;
  type: string;
  data: unknown;
}

/** Formats an event (HTML, section 9.2 Server-sent events). */
export function eventFrame({ id, type, data }: StreamEvent, write: (data: unknown) => string = JSON.stringify): string {
  return `id: ${id}\nevent: ${type}\ndata: ${write(data)}\n\n`;
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

const RETRY_MS = 5_000;

/**
 * All event streams of a gateway: of calls, of finished calls, of MCP subscriptions. The number of streams is limited per tenant.
 * Unread bytes wait in this process and count in the account of its memory: a stream that would exceed the share of its tenant is
 * closed, and its client resumes. A stream ends within 5 s of the revocation or expiry of the credential
 * that opened it.
 */
export class EventStreams {
  readonly #slots: FairSlots;

  constructor(
    private readonly limits: StreamLimits,
    private readonly memory: MemoryAccount,
    private readonly credentials?: Pick<CredentialWatch, 'watch'>,
  ) {
    this.#slots = new FairSlots('streams', limits.maxStreams, limits.maxStreamsPerTenant);
  }

  /** Open streams. */
  get open(): number {
    return this.#slots.total;
  }

  /**
   * Counts a new stream of this caller.
   * @param onVoid must end the stream: its credential was revoked or has expired
   * @param isOptional clients open it without need: it leaves half of the streams of its tenant to others
   * @returns a function that ends the count
   * @throws ToolError QUEUE_FULL when there are too many streams
   */
  enter(caller: Principal, onVoid: () => void, isOptional = false): () => void {
    const { tenantId } = caller;
    const most = Math.ceil(this.limits.maxStreamsPerTenant / (isOptional ? 2 : 1));
    const release = this.#slots.take(tenantId, most);
    if (!release && this.#slots.heldBy(tenantId) >= most) throw tooMany(`Your tenant has ${most} open event streams`);
    if (!release) throw tooMany(`${this.#slots.total} event streams are open`);
    const unwatch = this.credentials?.watch(caller, onVoid);
    return () => {
      unwatch?.();
      release();
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
      await takeOverReply(reply, async (raw) => {
        raw.writeHead(200, {
          ...(reply.getHeaders() as Record<string, string>),
          'Content-Type': 'text/event-stream; charset=utf-8',
          'Cache-Control': 'no-store',
          // Keeps proxies from buffering the events.
          'X-Accel-Buffering': 'no',
        });
        await work(new EventStream(raw, this.memory, caller.tenantId, voided.signal, this.limits.stalledMs));
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
    private readonly memory: MemoryAccount,
    private readonly tenantId: string,
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
    if (this.memory.held(this.tenantId) > 0 && this.memory.refusal(this.tenantId, bytes)) {
      this.raw.destroy();
      return;
    }
    this.memory.hold(this.tenantId, bytes);
    try {
      if (!this.raw.write(frame)) await drained(this.raw, this.stalledMs);
    } finally {
      this.memory.release(this.tenantId, bytes);
    }
  }
}

const tooMany = (message: string): ToolError => new ToolError('QUEUE_FULL', { message, retryAfterMs: RETRY_MS });
