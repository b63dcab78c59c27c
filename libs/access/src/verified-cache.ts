import { hash } from 'node:crypto';
import type { EpochMs, Principal } from '@toolfleet/contracts';
import { RecentMap, type Clock } from '@toolfleet/resilience';

/** A verified principal, and the instant at which its credential expires. */
export interface Verified {
  principal: Principal;
  expiresAt?: EpochMs;
}

/** Revocation takes effect within 5 s: this time, counted from before the store is read, plus the time of the read. */
export const VERIFIED_TTL_MS = 4_000;
const MAX_ENTRIES = 10_000;

/**
 * Remembers verified credentials by the SHA-256 of the whole credential. Nothing is cached by key id and no refusal is cached,
 * so the response time never tells a guesser whether an id is in use. Simultaneous first uses share one verification.
 */
export class VerifiedCache {
  private readonly entries = new RecentMap<string, Verified & { until: number }>({ max: MAX_ENTRIES });
  private readonly pending = new Map<string, Promise<Verified>>();

  constructor(private readonly clock: Clock) {}

  /**
   * The principal of a credential that was verified within `VERIFIED_TTL_MS`, else of the one that `prove` verifies now.
   * @throws what `prove` throws; it is not cached
   */
  async verify(credential: string, prove: () => Promise<Verified>): Promise<Principal> {
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
      proof = prove()
        .then((verified) => {
          this.entries.set(key, { ...verified, until });
          return verified;
        })
        .finally(() => this.pending.delete(key));
      this.pending.set(key, proof);
    }
    return (await proof).principal;
  }
}
