import { POOLS, type PoolName } from '@toolfleet/contracts/account';

/**
 * The slots of a pool that calls of all tenants hold, some of them for long. A tenant gets no more than some times as many as are free
 * (dynamic thresholds: Choudhury and Hahne, 1998). So every further tenant finds room however long the others hold theirs, and tenants that
 * ask for more share equally.
 */
export class FairSlots {
  readonly #held = new Map<string, number>();
  #total = 0;

  /** @param perTenant further limit of one tenant */
  constructor(
    readonly pool: PoolName,
    readonly limit: number,
    readonly perTenant = Number.POSITIVE_INFINITY,
  ) {}

  /** Slots that are held. */
  get total(): number {
    return this.#total;
  }

  /** Slots that a tenant holds. */
  heldBy(tenantId: string): number {
    return this.#held.get(tenantId) ?? 0;
  }

  /** Takes a slot. @returns what gives it back, once; undefined when there is none for this tenant */
  take(tenantId: string, most = this.perTenant): (() => void) | undefined {
    const held = this.#held.get(tenantId) ?? 0;
    if (held >= most || held >= POOLS[this.pool].timesFree * (this.limit - this.#total)) return undefined;
    this.#held.set(tenantId, held + 1);
    this.#total += 1;
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      this.#total -= 1;
      const left = this.#held.get(tenantId)! - 1;
      if (left > 0) this.#held.set(tenantId, left);
      else this.#held.delete(tenantId);
    };
  }
}
