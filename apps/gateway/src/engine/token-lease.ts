/** Tokens of 100 ms are taken at once, but never more than this. */
const MAX_LEASE = 64;
const LEASES_PER_MINUTE = 600;
/** What is not used within this time is lost: a lease only ever makes a limit stricter. */
const LEASE_MS = 1_000;

/** How many tokens of a limit one ask takes in advance; 1 for limits below 1,200 a minute, which are exact per call. */
export function leaseSize(perMinute: number): number {
  return Math.max(1, Math.min(MAX_LEASE, Math.floor(perMinute / LEASES_PER_MINUTE)));
}

/**
 * Tokens a process took from a shared limit for its next calls, with what the store said when it gave them. Large limits
 * cost one ask per hundred milliseconds of tokens instead of one per call; the bound holds, as tokens are counted when taken.
 */
export class TokenLeases<Reply> {
  private readonly leases = new Map<string, { left: number; until: number; reply: Reply }>();

  /** Uses one token of a lease; undefined when there is none. `left` is what the lease still holds. */
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

  /** Keeps what was granted beyond need. */
  keep(id: string, surplus: number, reply: Reply, now: number): void {
    if (surplus > 0) this.leases.set(id, { left: surplus, until: now + LEASE_MS, reply });
  }
}
