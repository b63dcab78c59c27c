import { hash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { EpochMs, Principal } from '@toolfleet/contracts';
import type { Clock } from '@toolfleet/resilience';

/** A principal that was proven, and the instant from which the credential is void. */
export interface Verified {
  principal: Principal;
  expiresAt?: EpochMs;
}

/** Revocation is effective within 5 s: this, measured from before the store was asked, plus the reading of it. */
export const VERIFIED_TTL_MS = 4_000;
const MAX_ENTRIES = 10_000;

/**
 * Remembers who a credential was proven to be, by the SHA-256 of the whole credential. Nothing is remembered by key id, and no
 * refusal at all: so a guess never learns from the speed of an answer whether an id is in use. Simultaneous first uses share one proof.
 */
export class VerifiedCache {
  private readonly entries = new LRUCache<string, Verified & { until: number }>({ max: MAX_ENTRIES });
  private readonly pending = new Map<string, Promise<Verified>>();

  constructor(private readonly clock: Clock) {}

  /** The principal of `credential`, proven at most `VERIFIED_TTL_MS` ago, else by `prove` now. Refusals of `prove` are passed on. */
  async principalOf(credential: string, prove: () => Promise<Verified>): Promise<Principal> {
    const key = hash('sha256', credential, 'base64');
    const known = this.entries.get(key);
    if (
      known &&
      this.clock.monotonic() < known.until &&
      !(known.expiresAt !== undefined && known.expiresAt <= this.clock.now())
    ) {
      return known.principal;
    }
    let proof = this.pending.get(key);
    if (!proof) {
      const until = this.clock.monotonic() + VERIFIED_TTL_MS;
      const proving: Promise<Verified> = prove()
        .then((verified) => {
          // After `clear` it is nobody's proof but of those who wait for it.
          if (this.pending.get(key) === proving) this.entries.set(key, { ...verified, until });
          return verified;
        })
        .finally(() => {
          if (this.pending.get(key) === proving) this.pending.delete(key);
        });
      this.pending.set(key, proving);
      proof = proving;
    }
    return (await proof).principal;
  }

  /** Forgets everything proven by this process (after a revocation made here), and what is being proven: it may be from before. */
  clear(): void {
    this.entries.clear();
    this.pending.clear();
  }
}
