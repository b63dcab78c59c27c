import { type EpochMs, OPERATOR_TENANT, type Principal, ToolError } from '@toolfleet/contracts';
import { AbortSource, RecentMap, type CancelTimer, type Clock } from '@toolfleet/resilience';
import type { ApiKeys } from './api-keys.js';
import { OPERATOR_KEY_ID } from './roles.js';
import type { UserSessions } from './user-sessions.js';
import { VERIFIED_TTL_MS } from './verified-cache.js';

const MAX_KEYS = 10_000;

interface CredentialStatusDeps {
  keys?: Pick<ApiKeys, 'isLive'>;
  sessions?: Pick<UserSessions, 'isLive'>;
  /** `GATEWAY_ADMIN_KEY` is set: work accepted from its holder may start. */
  hasAdminKey: boolean;
  clock: Clock;
}

/**
 * Whether the credential of a principal is still valid, for work that outlives the request it came with: queued calls, tools
 * that call tools, open streams. A revocation is noticed within 5 s, as everywhere.
 */
export class CredentialStatus {
  /** Instants on the monotonic clock until which a key or session is known to be live. */
  readonly #live = new RecentMap<string, number>({ max: MAX_KEYS });

  constructor(private readonly deps: CredentialStatusDeps) {}

  /**
   * The error for work of a revoked or expired credential; undefined while the credential is valid.
   * @throws ToolError SERVICE_UNAVAILABLE when its key or session cannot be looked up
   */
  async findRefusal(principal: Principal): Promise<ToolError | undefined> {
    if (isOver(principal.expiresAt, this.deps.clock.now())) return voidCredential('has expired');
    const { sessionId, roles } = principal;
    if (sessionId !== undefined) {
      // A role that was lost ends what relies on it; the user can begin it again.
      const isSignedIn = async () => (await this.deps.sessions?.isLive(sessionId, roles)) ?? false;
      if (!(await this.#isKnown(`session/${sessionId}/${roles.join()}`, isSignedIn)))
        return voidCredential('was revoked, or its user signed out or lost a role');
    }
    if (principal.keyId === undefined || (await this.#isLive(principal.keyId, principal.tenantId))) return undefined;
    return voidCredential('was revoked');
  }

  async #isLive(keyId: string, tenantId: string): Promise<boolean> {
    const { keys, hasAdminKey } = this.deps;
    if (keyId === OPERATOR_KEY_ID && tenantId === OPERATOR_TENANT) return hasAdminKey;
    return this.#isKnown(`${tenantId}/${keyId}`, async () => (await keys?.isLive(keyId, tenantId)) ?? false);
  }

  async #isKnown(name: string, look: () => Promise<boolean>): Promise<boolean> {
    const now = this.deps.clock.monotonic();
    if ((this.#live.get(name) ?? 0) > now) return true;
    const isLive = await look();
    if (isLive) this.#live.set(name, now + VERIFIED_TTL_MS);
    return isLive;
  }
}

const isOver = (expiresAt: EpochMs | undefined, now: EpochMs): boolean => expiresAt !== undefined && expiresAt <= now;

const voidCredential = (what: string): ToolError =>
  new ToolError('UNAUTHENTICATED', { message: `The credential that made this call ${what} before the call started.` });

/**
 * Interval in which credentials of open streams are checked. Together with `VERIFIED_TTL_MS`, for which a status is cached, a
 * stream ends within 5 s of the revocation of its key.
 */
const CHECK_EVERY_MS = 500;
/**
 * A stream with a credential that could not be checked so often in a row, for four seconds, ends as well. Not an instant: a process
 * that was suspended has not looked.
 */
const MAX_UNANSWERED = 8;

interface WatchedCredential {
  principal: Principal;
  onVoid: () => void;
  /** Checks since the last one that found the credential valid. */
  unanswered: number;
}

/** Watches the credentials of open streams with one timer, and reports each that is revoked or expires. */
export class CredentialWatch {
  readonly #watched = new Set<WatchedCredential>();
  #cancelTimer: CancelTimer | undefined;

  constructor(
    private readonly status: Pick<CredentialStatus, 'findRefusal'>,
    private readonly clock: Clock,
  ) {}

  /** Number of watched credentials. */
  get size(): number {
    return this.#watched.size;
  }

  /** Calls `onVoid` once when the credential is revoked or expires. @returns a function that ends the watch */
  watch(principal: Principal, onVoid: () => void): () => void {
    const watched: WatchedCredential = { principal, onVoid, unanswered: 0 };
    this.#watched.add(watched);
    this.#schedule();
    return () => {
      this.#watched.delete(watched);
      if (this.#watched.size === 0) this.#stop();
    };
  }

  /** Runs work with a signal that aborts with UNAUTHENTICATED when the credential is revoked or expires. */
  async during<T>(principal: Principal, work: (isValid: AbortSignal) => Promise<T>): Promise<T> {
    const revoked = new AbortSource();
    const stop = this.watch(principal, () => revoked.abort(voidCredential('was revoked or has expired')));
    try {
      return await work(revoked.signal);
    } finally {
      stop();
    }
  }

  #schedule(): void {
    this.#cancelTimer ??= this.clock.after(CHECK_EVERY_MS, () => {
      this.#cancelTimer = undefined;
      // The next check does not wait for this one: a store that hangs must not keep streams open.
      if (this.#watched.size > 0) this.#schedule();
      for (const watched of this.#watched) void this.#check(watched);
    });
  }

  #stop(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
  }

  async #check(watched: WatchedCredential): Promise<void> {
    if (watched.unanswered >= MAX_UNANSWERED) return this.#end(watched);
    watched.unanswered += 1;
    try {
      if (await this.status.findRefusal(watched.principal)) this.#end(watched);
      else watched.unanswered = 0;
    } catch {
      // The key store is unavailable; `unanswered` bounds for how long that is tolerated.
    }
  }

  #end(watched: WatchedCredential): void {
    if (this.#watched.delete(watched)) watched.onVoid();
  }
}
