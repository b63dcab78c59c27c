import { isJsonObject, SUBJECTS } from '@toolfleet/contracts';
import { BreakerMap, type BreakerRule, type Clock, type ProbeLease } from '@toolfleet/resilience';
import type { NatsClient } from '@toolfleet/transport';

/**
 * Breakers per tool, of this gateway; an opening is told to the others, who may open early but never close early
 * (reliability.md 5). The remaining time travels, not an instant: wall clocks of hosts are never compared.
 */
export class SharedBreakers {
  readonly map: BreakerMap;
  /** True while a peer's word is being followed: it is not passed on again. */
  private following = false;

  constructor(
    rule: BreakerRule,
    private readonly clock: Clock,
    private readonly nats: NatsClient,
    /** One half-open probe for all gateways. */
    mayProbe: ProbeLease,
  ) {
    this.map = new BreakerMap(
      rule,
      clock,
      ({ key, state, openUntilAt }) => {
        if (state !== 'open' || this.following || !nats.connected) return;
        nats.publish(SUBJECTS.breakerChanged, { tool: key, open_for_ms: Math.max(0, openUntilAt - clock.now()) });
      },
      { mayProbe },
    );
  }

  /** Listens to the other gateways. */
  follow(): void {
    this.nats.subscribe(SUBJECTS.breakerChanged, ({ body }) => {
      if (!isJsonObject(body) || typeof body.tool !== 'string' || typeof body.open_for_ms !== 'number') return;
      if (this.map.stateOf(body.tool) !== 'closed') return;
      this.following = true;
      try {
        this.map.openUntil(body.tool, this.clock.now() + body.open_for_ms);
      } finally {
        this.following = false;
      }
    });
  }
}
