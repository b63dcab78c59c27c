/** Most tokens of one lease. */
const MAX_LEASE = 64;
/** A lease has the tokens of 100 ms. */
const LEASES_PER_MINUTE = 600;
/** Unused tokens of a lease are lost after this time; this only makes the limit stricter. */
const LEASE_MS = 1_000;

/** Tokens of a limit that one request leases; 1 for limits below 1,200 a minute, exact per call. */
export function leaseSize(perMinute: number): number {
  return Math.max(1, Math.min(MAX_LEASE, Math.floor(perMinute / LEASES_PER_MINUTE)));
}

/**
 * Tokens of shared limits that this process took in advance, with the reply of the store that granted them. A large limit then
 * costs one request per 100 ms of tokens instead of one per call. The limit holds, because tokens are counted when leased.
 */
export class TokenLeases<Reply> {
  private readonly leases = new Map<string, { left: number; until: number; reply: Reply }>();

  /** Takes one token of a lease, with `left` tokens remaining in it; undefined without a lease. */
  use(id: string, now: number): { reply: Reply; left: number } | undefined {
    const lease = this.leases.get(id);
    if (!lease) return undefined;
    if (lease.until <= now) {
      this.leases.delete(id);
      return undefined;
    }
    lease.left -= 1;
    if (lease.left === 0) this.leases.delete(id);
    return { reply: lease.reply, left: lease.left };
  }

  /** Stores `surplus` tokens as a lease; does nothing for 0 or less. */
  keep(id: string, surplus: number, reply: Reply, now: number): void {
    if (surplus > 0) this.leases.set(id, { left: surplus, until: now + LEASE_MS, reply });
  }
}
