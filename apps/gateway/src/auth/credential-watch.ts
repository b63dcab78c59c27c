import type { Principal } from '@toolfleet/contracts';
import type { CancelTimer, Clock } from '@toolfleet/resilience';
import type { CredentialStatus } from './credential-status.js';

/**
 * Credentials of open streams are looked at this often. With `VERIFIED_TTL_MS`, for which a status is remembered, a stream
 * ends within 5 s of the revocation of its key.
 */
const LOOK_EVERY_MS = 500;
/** A stream whose credential cannot be looked up for so long ends, too: without proof there is no access. */
const UNKNOWN_MS = 4_000;

interface Watched {
  principal: Principal;
  onVoid: () => void;
  /** Monotonic instant of the last look that found the credential in order. */
  seenAt: number;
}

/** Watches the credentials of everything that stays open after the request that proved them; one timer for all. */
export class CredentialWatch {
  readonly #watched = new Set<Watched>();
  #cancelTimer: CancelTimer | undefined;

  constructor(
    private readonly status: Pick<CredentialStatus, 'refusalOf'>,
    private readonly clock: Clock,
  ) {}

  /** Credentials that are watched. */
  get size(): number {
    return this.#watched.size;
  }

  /** Calls `onVoid` once when the credential is revoked or has expired. The returned function ends the watch. */
  watch(principal: Principal, onVoid: () => void): () => void {
    const watched: Watched = { principal, onVoid, seenAt: this.clock.monotonic() };
    this.#watched.add(watched);
    this.#schedule();
    return () => {
      this.#watched.delete(watched);
      if (this.#watched.size === 0) this.#stop();
    };
  }

  #schedule(): void {
    this.#cancelTimer ??= this.clock.after(LOOK_EVERY_MS, () => {
      this.#cancelTimer = undefined;
      // The next look does not wait for this one: a store that hangs must not keep streams open.
      if (this.#watched.size > 0) this.#schedule();
      for (const watched of this.#watched) void this.#look(watched);
    });
  }

  #stop(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
  }

  async #look(watched: Watched): Promise<void> {
    const now = this.clock.monotonic();
    if (now - watched.seenAt > UNKNOWN_MS) return this.#end(watched);
    try {
      if (await this.status.refusalOf(watched.principal)) this.#end(watched);
      else watched.seenAt = Math.max(watched.seenAt, now);
    } catch {
      // The store of keys is away; `seenAt` says for how long.
    }
  }

  #end(watched: Watched): void {
    if (this.#watched.delete(watched)) watched.onVoid();
  }
}
