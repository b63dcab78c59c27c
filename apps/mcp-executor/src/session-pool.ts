import { isToolError, ToolError, type JsonObject, type Milliseconds } from '@toolfleet/contracts';
import type { CancelTimer } from '@toolfleet/resilience';
import { CallScope } from './call-scope.js';
import type { McpTarget } from './mcp-target.js';
import { CredentialStore } from './oauth/credential-store.js';
import { McpSession, type SessionParts } from './mcp-session.js';

/** Bounds of the pool. */
export interface PoolLimits {
  /** A session nobody uses is closed after this time. */
  idleCloseMs: Milliseconds;
  /** Sessions in all; beyond it the least recently used idle one is closed. */
  maxSessions: number;
  /** Exchanges at once with one server; more are refused. */
  maxInFlight: number;
}

export const POOL_LIMITS: PoolLimits = { idleCloseMs: 60_000, maxSessions: 200, maxInFlight: 100 };

interface Slot {
  opening: Promise<McpSession>;
  session?: McpSession;
  inFlight: number;
  cancelIdle?: CancelTimer;
  /** Closed or replaced: users in flight finish with it, newcomers get another. */
  retired: boolean;
}

/** Makes a session; replaced in tests. */
export type OpenSession = typeof McpSession.open;

/**
 * One session per server and credential, shared by all calls: opened once however many callers wait, reused, closed when
 * idle. A session that broke is retired, so the next call opens a new one.
 */
export class SessionPool {
  private readonly slots = new Map<string, Slot>();
  /** Retired sessions with users left, for `close`. */
  private readonly retired = new Set<Slot>();
  /** Era verdicts by server, so that a reconnect needs no probe. */
  private readonly priors = new Map<string, JsonObject>();
  private closed = false;
  private readonly parts: SessionParts;

  constructor(
    parts: Omit<SessionParts, 'credentials'>,
    private readonly onToolsChanged: (server: string) => void = () => undefined,
    private readonly limits: PoolLimits = POOL_LIMITS,
    private readonly open: OpenSession = McpSession.open,
  ) {
    this.parts = { ...parts, credentials: new CredentialStore(parts) };
  }

  /** Sessions that are open or opening. */
  get size(): number {
    return this.slots.size + this.retired.size;
  }

  /**
   * Runs work on the server's session.
   * @throws ToolError QUEUE_FULL, or whatever connecting or the work throws
   */
  async use<T>(target: McpTarget, work: (session: McpSession) => Promise<T>): Promise<T> {
    if (this.closed) throw new ToolError('SERVICE_UNAVAILABLE');
    const slot = this.slots.get(target.key) ?? this.start(target);
    if (slot.inFlight >= this.limits.maxInFlight) {
      throw new ToolError('QUEUE_FULL', { message: `Too many calls to the MCP server ${target.server} at once` });
    }
    this.touch(target.key, slot);
    slot.inFlight += 1;
    try {
      return await work(await slot.opening);
    } finally {
      slot.inFlight -= 1;
      this.afterUse(target.key, slot);
    }
  }

  /**
   * Takes a session out of use, when it is still the current one. Without a session, because it never opened, there is
   * nothing to take out: the slot went by itself, and the one that stands there now belongs to others.
   * @param forgetEra also probe again: what we knew about the server may be wrong
   */
  retire(target: McpTarget, session: McpSession | undefined, forgetEra: boolean): void {
    if (forgetEra) this.priors.delete(target.key);
    const slot = this.slots.get(target.key);
    if (slot && session && slot.session === session) this.takeOut(target.key, slot);
  }

  /** The server said inside an answer that our token has expired: the next call connects anew, with another. */
  expireToken(target: McpTarget, session: McpSession | undefined): void {
    this.parts.credentials.of(target)?.forgetToken();
    this.retire(target, session, false);
  }

  /** Closes everything; exchanges in flight fail. */
  async close(): Promise<void> {
    this.closed = true;
    const slots = [...this.slots.values(), ...this.retired];
    this.slots.clear();
    this.retired.clear();
    await Promise.all(
      slots.map(async (slot) => {
        slot.cancelIdle?.();
        const session = await slot.opening.catch(() => undefined);
        await session?.close();
      }),
    );
  }

  private start(target: McpTarget): Slot {
    this.makeRoom();
    const prior = this.priors.get(target.key) ?? target.prior;
    const slot: Slot = {
      // Outside any caller's scope: the session outlives the call that happened to open it.
      opening: CallScope.outside(() =>
        this.open({ ...target, ...(prior ? { prior } : {}) }, this.parts, () => this.onToolsChanged(target.server)),
      ),
      inFlight: 0,
      retired: false,
    };
    this.slots.set(target.key, slot);
    slot.opening.then(
      (session) => {
        slot.session = session;
        this.priors.set(target.key, session.prior);
        // A server process that ends, or a transport that closes by itself, must not be used again.
        session.client.onclose = () => this.retire(target, session, false);
      },
      (error: unknown) => {
        if (this.slots.get(target.key) === slot) this.slots.delete(target.key);
        // A verdict that no longer fits must not be tried again; a refusal of our guard says nothing about the server.
        if (!isToolError(error)) this.priors.delete(target.key);
      },
    );
    return slot;
  }

  private touch(key: string, slot: Slot): void {
    slot.cancelIdle?.();
    if (this.slots.get(key) !== slot) return;
    this.slots.delete(key);
    this.slots.set(key, slot);
  }

  private afterUse(key: string, slot: Slot): void {
    if (slot.inFlight > 0) return;
    if (slot.retired) return this.finish(slot);
    if (this.slots.get(key) !== slot) return;
    slot.cancelIdle?.();
    slot.cancelIdle = this.parts.clock.after(this.limits.idleCloseMs, () => this.takeOut(key, slot));
  }

  private makeRoom(): void {
    if (this.slots.size < this.limits.maxSessions) return;
    for (const [key, slot] of this.slots) {
      if (slot.inFlight === 0) return this.takeOut(key, slot);
    }
    throw new ToolError('QUEUE_FULL', { message: 'Too many MCP sessions are in use' });
  }

  private takeOut(key: string, slot: Slot): void {
    if (this.slots.get(key) === slot) this.slots.delete(key);
    slot.cancelIdle?.();
    slot.retired = true;
    this.retired.add(slot);
    if (slot.inFlight === 0) this.finish(slot);
  }

  private finish(slot: Slot): void {
    if (!this.retired.delete(slot)) return;
    void slot.opening.then((session) => session.close()).catch(() => undefined);
  }
}
