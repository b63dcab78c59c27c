import { Pool } from 'undici';
import { guardedConnector, type ConnectorParts } from './connector.js';
import type { GuardedUrl } from './url-guard.js';

/** Caps of the pools. */
export interface PoolLimits {
  /** Sockets of all origins together (100). */
  totalConnections: number;
  /** Sockets of one origin (10). */
  connectionsPerHost: number;
  maxHeaderBytes: number;
  keepAliveMs: number;
}

interface Entry {
  pool: Pool;
  /** Requests whose body is not finished. */
  inFlight: number;
}

/** One undici pool per origin, all sharing the slots. Pools of unused origins are closed when slots run out or too many pile up. */
export class ConnectionPools {
  private readonly entries = new Map<string, Entry>();
  private readonly slots: ConnectionSlots;
  private closed = false;

  constructor(
    private readonly limits: PoolLimits,
    private readonly parts: Omit<ConnectorParts, 'slots'>,
  ) {
    this.slots = new ConnectionSlots(limits.totalConnections, () => this.closeIdle());
  }

  /** The pool of an origin, and the function to call once the response's body is done with. */
  use(target: GuardedUrl): { pool: Pool; done: () => void } {
    if (this.closed) throw new Error('egress client is closed');
    const entry = this.entries.get(target.origin) ?? this.open(target);
    // Re-inserted: map order is least recently used first.
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

  /** Ends every connection at once; requests in flight fail. */
  async close(): Promise<void> {
    this.closed = true;
    const pools = [...this.entries.values()].map((entry) => entry.pool);
    this.entries.clear();
    await Promise.all(pools.map((pool) => pool.destroy()));
  }

  private open(target: GuardedUrl): Entry {
    if (this.entries.size >= this.limits.totalConnections) this.closeIdle();
    const pool = new Pool(target.origin, {
      connections: this.limits.connectionsPerHost,
      connect: guardedConnector(target, { ...this.parts, slots: this.slots }),
      allowH2: false,
      pipelining: 1,
      maxHeaderSize: this.limits.maxHeaderBytes,
      keepAliveTimeout: this.limits.keepAliveMs,
      // An upstream's keep-alive hint may shorten this, never lengthen it.
      keepAliveMaxTimeout: this.limits.keepAliveMs,
      // Own timers watch headers and body (per request and on the injected clock).
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

/** Counts open sockets of all origins and makes the next one wait while the cap is reached. */
export class ConnectionSlots {
  private open = 0;
  private readonly waiting: (() => void)[] = [];

  /** @param onFull called each time somebody has to wait, so that idle sockets can be closed */
  constructor(
    private readonly total: number,
    private readonly onFull: () => void,
  ) {}

  /** Resolves with the release function, which may be called more than once. Rejects with the signal's reason. */
  async take(signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted();
    if (this.open >= this.total) {
      this.onFull();
      await this.turn(signal);
    } else {
      this.open += 1;
    }
    let held = true;
    return () => {
      if (!held) return;
      held = false;
      const next = this.waiting.shift();
      // The place goes straight to the next in line, so that nobody can overtake.
      if (next) next();
      else this.open -= 1;
    };
  }

  /** Sockets open or being opened. */
  get inUse(): number {
    return this.open;
  }

  private turn(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const admitted = () => {
        signal.removeEventListener('abort', gaveUp);
        resolve();
      };
      const gaveUp = () => {
        this.waiting.splice(this.waiting.indexOf(admitted), 1);
        reject(signal.reason);
      };
      this.waiting.push(admitted);
      signal.addEventListener('abort', gaveUp, { once: true });
    });
  }
}
