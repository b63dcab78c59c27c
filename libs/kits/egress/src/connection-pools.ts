import { Pool } from 'undici';
import { guardedConnector, type ConnectorDeps, ConnectionSlots } from './connector.js';
import type { GuardedUrl } from './url-guard.js';

/** Limits of the pools. */
interface OriginLimits {
  /** Sockets of all origins together. */
  totalConnections: number;
  /** Sockets of one origin. */
  connectionsPerHost: number;
  maxHeaderBytes: number;
  keepAliveMs: number;
}

interface OriginPool {
  pool: Pool;
  /** Requests with an unfinished response body. */
  inFlight: number;
}

/**
 * One undici pool per origin. All pools share the connection slots. Pools without requests are closed when the slots run
 * out and when there are as many pools as slots.
 */
export class ConnectionPools {
  private readonly entries = new Map<string, OriginPool>();
  private readonly slots: ConnectionSlots;
  private closed = false;

  constructor(
    private readonly limits: OriginLimits,
    private readonly deps: Omit<ConnectorDeps, 'slots'>,
  ) {
    this.slots = new ConnectionSlots(limits.totalConnections, () => this.closeIdle());
  }

  /** The pool of an origin. Call `done` once the response body has ended; calling it again has no effect. */
  use(target: GuardedUrl): { pool: Pool; done: () => void } {
    if (this.closed) throw new Error('the egress client is closed');
    const entry = this.entries.get(target.origin) ?? this.open(target);
    // Re-inserting keeps the map in order of last use, oldest first.
    this.entries.delete(target.origin);
    this.entries.set(target.origin, entry);
    entry.inFlight += 1;
    let used = true;
    return {
      pool: entry.pool,
      done: () => {
        if (used) entry.inFlight -= 1;
        used = false;
      },
    };
  }

  /** Open sockets of all origins. */
  get openConnections(): number {
    return this.slots.inUse;
  }

  /** Closes every connection at once; requests in flight fail. */
  async close(): Promise<void> {
    this.closed = true;
    const pools = [...this.entries.values()].map((entry) => entry.pool);
    this.entries.clear();
    await Promise.all(pools.map((pool) => pool.destroy()));
  }

  private open(target: GuardedUrl): OriginPool {
    if (this.entries.size >= this.limits.totalConnections) this.closeIdle();
    const pool = new Pool(target.origin, {
      connections: this.limits.connectionsPerHost,
      connect: guardedConnector(target, { ...this.deps, slots: this.slots }),
      allowH2: false,
      pipelining: 1,
      maxHeaderSize: this.limits.maxHeaderBytes,
      keepAliveTimeout: this.limits.keepAliveMs,
      // A keep-alive hint of the upstream may shorten this, but not extend it.
      keepAliveMaxTimeout: this.limits.keepAliveMs,
      // RequestTimeouts limits headers and body, per request and on the injected clock.
      headersTimeout: 0,
      bodyTimeout: 0,
    });
    return { pool, inFlight: 0 };
  }

  private closeIdle(): void {
    for (const [origin, entry] of this.entries) {
      if (entry.inFlight > 0) continue;
      this.entries.delete(origin);
      void entry.pool.close().catch(() => undefined);
    }
  }
}
