import type { Milliseconds } from '@toolfleet/contracts';
import { LEASE_MS } from '@toolfleet/contracts/execution';

/** The resources of one source with updates that gateways want. The lease of a gateway that stopped renewing it is over. */
export class ResourceLeases {
  readonly #gateways = new Map<string, { uris: readonly string[]; until: Milliseconds }>();

  /**
   * Replaces the wishes of a gateway.
   * @param now by the monotonic clock
   */
  renew(gateway: string, uris: readonly string[], now: Milliseconds): void {
    if (uris.length === 0) this.#gateways.delete(gateway);
    else this.#gateways.set(gateway, { uris, until: now + LEASE_MS });
  }

  /** What all gateways with a valid lease want, each address once. */
  wanted(now: Milliseconds): Set<string> {
    for (const [gateway, { until }] of this.#gateways) if (until <= now) this.#gateways.delete(gateway);
    return new Set([...this.#gateways.values()].flatMap(({ uris }) => uris));
  }
}
