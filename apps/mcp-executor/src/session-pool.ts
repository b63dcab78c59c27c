import { isToolError, ToolError, type JsonObject, type Milliseconds } from '@toolfleet/contracts';
import { FairSlots, type CancelTimer } from '@toolfleet/resilience';
import { RequestExchange } from './exchange.js';
import type { McpTarget } from './mcp-target.js';
import { CredentialStore } from './oauth/oauth-credential.js';
import { UpstreamSession, type SessionDeps } from './mcp-session.js';
import { Traffic, type TrafficMetrics } from './traffic.js';

/** Bounds of the pool. */
export interface PoolLimits {
  /** An unused session is closed after this time. */
  idleCloseMs: Milliseconds;
  /** Most sessions; beyond that the least recently used idle one is closed. */
  maxSessions: number;
  /** Maximum number of concurrent exchanges on one session, shared between tenants; more are refused. */
  maxInFlight: number;
}

/**
 * Sessions with a server, and processes of a local server, for one call each with a caller that can be asked. Further calls at the same time share
 * a session, where a server asks on the stream of the call; a local server cannot ask in them.
 */
const ASKING_LANES = 4;

export const POOL_LIMITS: PoolLimits = { idleCloseMs: 60_000, maxSessions: 1_000, maxInFlight: 100 };

interface Slot {
  opening: Promise<UpstreamSession>;
  session?: UpstreamSession;
  inFlight: FairSlots;
  cancelIdle?: CancelTimer;
  /** Grant of the user that its requests act as. */
  grant: string | undefined;
  /** Taken out of the pool: exchanges in flight finish on it, new ones get another session. */
  retired: boolean;
}

/** Targets with one key share a session. */
const sessionKey = ({ key, declared, lane = 0 }: McpTarget): string =>
  declared ? `${key} ${JSON.stringify(declared)} ${lane}` : key;

/** Opens a session; replaced in tests. */
type OpenSession = typeof UpstreamSession.open;

/**
 * One session per server, credential (of the source or of a user) and declared capabilities, shared by all calls. Concurrent callers wait for one opening; an idle
 * session is closed.
 * A broken session is retired, so that the next call opens a new one.
 */
export class SessionPool {
  private readonly slots = new Map<string, Slot>();
  /** Retired sessions with exchanges in flight, for `close`. */
  private readonly retired = new Set<Slot>();
  /**
   * Protocol revisions by target key (`UpstreamSession.prior`), so that a reconnect needs no probe. Undefined: the server refused the one
   * that was stored with its registration.
   */
  private readonly priors = new Map<string, JsonObject | undefined>();
  private closed = false;
  private readonly deps: SessionDeps;

  constructor(
    deps: Omit<SessionDeps, 'credentials' | 'traffic'> & { metrics?: TrafficMetrics },
    private readonly onServerChanged: (server: string) => void = () => undefined,
    private readonly limits: PoolLimits = POOL_LIMITS,
    private readonly open: OpenSession = UpstreamSession.open,
  ) {
    const traffic = new Traffic(deps.clock, deps.metrics);
    this.deps = { ...deps, credentials: new CredentialStore(deps), traffic };
  }

  /** Sessions that are open or opening. */
  get size(): number {
    return this.slots.size + this.retired.size;
  }

  /**
   * Runs work on the server's session.
   * @param tenantId of the caller; '' for the fleet itself
   * @param asked the caller's capabilities; servers of the 2025 revisions learn it from the session
   * @throws ToolError QUEUE_FULL, or whatever connecting or the work throws
   */
  async use<T>(
    server: McpTarget,
    tenantId: string,
    work: (session: UpstreamSession) => Promise<T>,
    asked?: JsonObject,
  ): Promise<T> {
    if (this.closed) throw new ToolError('SERVICE_UNAVAILABLE');
    const target = asked && this.asksOnSession(server) ? this.askingTarget(server, asked) : server;
    const key = sessionKey(target);
    const slot = this.slots.get(key) ?? this.start(target);
    const release = slot.inFlight.take(tenantId);
    if (!release)
      throw new ToolError('QUEUE_FULL', { message: `Too many calls to the MCP server ${target.server} at once` });
    this.touch(key, slot);
    try {
      return await work(await slot.opening);
    } finally {
      release();
      this.afterUse(key, slot);
    }
  }

  /**
   * Takes a session out of the pool if it is still the current one. A session that never opened has removed its own slot, and
   * the slot there now belongs to other calls.
   * @param forgetPrior probe the protocol revision again, because the stored one may be wrong
   */
  retire(target: McpTarget, session: UpstreamSession | undefined, forgetPrior: boolean): void {
    if (forgetPrior) this.priors.set(target.key, undefined);
    const key = sessionKey(session?.target ?? target);
    const slot = this.slots.get(key);
    if (slot && session && slot.session === session) this.takeOut(key, slot);
  }

  /** The server reported inside a result that the token has expired: the next call connects with a new one. */
  expireToken(target: McpTarget, session: UpstreamSession | undefined): void {
    this.deps.credentials.get(target)?.forgetToken();
    this.retire(target, session, false);
  }

  /** Takes the sessions of a grant out of the pool, because the user disconnected. */
  forget(grant: string): void {
    for (const [key, slot] of this.slots) if (slot.grant === grant) this.takeOut(key, slot);
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

  /** The server's revision, as far as it is known. */
  private priorOf({ key, prior }: McpTarget): JsonObject | undefined {
    return this.priors.has(key) ? this.priors.get(key) : prior;
  }

  /** Servers of 2026-07-28 ask in their results. */
  private asksOnSession(target: McpTarget): boolean {
    return this.priorOf(target)?.['kind'] !== 'modern';
  }

  /** The stream of a session or of a local process does not tell the asking call: a lane gets one call at a time, while there are lanes. */
  private askingTarget(server: McpTarget, declared: JsonObject): McpTarget {
    for (let lane = 0; lane < ASKING_LANES; lane += 1) {
      const target = { ...server, declared, lane };
      if (!this.slots.get(sessionKey(target))?.inFlight.total) return target;
    }
    return server.transport === 'stdio' ? server : { ...server, declared, lane: 0 };
  }

  private start(target: McpTarget): Slot {
    this.makeRoom();
    const key = sessionKey(target);
    const prior = this.priorOf(target);
    const slot: Slot = {
      // Outside the caller's exchange: the session outlives the call that opened it.
      opening: RequestExchange.outside(() =>
        this.open({ ...target, prior }, this.deps, () => this.onServerChanged(target.server)),
      ),
      inFlight: new FairSlots('exchanges', this.limits.maxInFlight),
      grant: target.user?.grant,
      retired: false,
    };
    this.slots.set(key, slot);
    slot.opening.then(
      (session) => {
        slot.session = session;
        this.priors.set(target.key, session.prior);
        // The registry stores an outdated revision: it looks again, and shows the switch in the status of the source.
        if (target.prior && target.prior['kind'] !== session.prior['kind']) this.onServerChanged(target.server);
        // A server process that exits, or a transport that closes, must not be reused.
        session.client.onclose = () => this.retire(target, session, false);
      },
      (error: unknown) => {
        if (this.slots.get(key) === slot) this.slots.delete(key);
        // The stored revision may be wrong. A refusal by the egress guard is not evidence about it.
        if (!isToolError(error) || error.code === 'ATTEMPT_TIMED_OUT') this.priors.set(target.key, undefined);
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
    if (slot.inFlight.total > 0) return;
    if (slot.retired) return this.finish(slot);
    if (this.slots.get(key) !== slot) return;
    slot.cancelIdle?.();
    slot.cancelIdle = this.deps.clock.after(this.limits.idleCloseMs, () => this.takeOut(key, slot));
  }

  private makeRoom(): void {
    if (this.slots.size < this.limits.maxSessions) return;
    for (const [key, slot] of this.slots) {
      if (slot.inFlight.total === 0) return this.takeOut(key, slot);
    }
    throw new ToolError('QUEUE_FULL', { message: 'Too many MCP sessions are in use' });
  }

  private takeOut(key: string, slot: Slot): void {
    if (this.slots.get(key) === slot) this.slots.delete(key);
    slot.cancelIdle?.();
    slot.retired = true;
    this.retired.add(slot);
    if (slot.inFlight.total === 0) this.finish(slot);
  }

  private finish(slot: Slot): void {
    if (!this.retired.delete(slot)) return;
    void slot.opening.then((session) => session.close()).catch(() => undefined);
  }
}
