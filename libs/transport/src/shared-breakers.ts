import { isJsonObject, SUBJECTS, type BreakerChanged } from '@toolfleet/contracts';
import {
  BreakerMap,
  type BreakerRule,
  type BreakerTransition,
  type Clock,
  type ProbeLease,
} from '@toolfleet/resilience';
import type { NatsClient } from './nats-client.js';

/** What breakers that replicas share need. */
export interface SharedBreakersOptions {
  /** The service whose replicas share them; keys of other services mean something else. */
  scope: string;
  rule: BreakerRule;
  clock: Clock;
  nats: NatsClient;
  /** One half-open probe for all replicas; without it each sends its own. */
  mayProbe?: ProbeLease;
  /** Hears of every change in this process, also of those made because of a peer. */
  onTransition?: (transition: BreakerTransition) => void;
}

/**
 * Breakers of one process; an opening is told to the other replicas of the service, who may open early but never close
 * early. The remaining time travels, not an instant: wall clocks of hosts are never compared.
 */
export class SharedBreakers {
  readonly map: BreakerMap;
  /** True while a peer's word is being followed: it is not passed on again. */
  #following = false;

  constructor(private readonly options: SharedBreakersOptions) {
    const { scope, rule, clock, nats, mayProbe, onTransition } = options;
    this.map = new BreakerMap(
      rule,
      clock,
      (transition) => {
        onTransition?.(transition);
        if (transition.state !== 'open' || this.#following || !nats.connected) return;
        const openForMs = Math.max(0, transition.openUntilAt - clock.now());
        nats.publish(SUBJECTS.breakerChanged, {
          scope,
          key: transition.key,
          open_for_ms: openForMs,
        } satisfies BreakerChanged);
      },
      mayProbe ? { mayProbe } : {},
    );
  }

  /** Listening to the other replicas, as a part of a service: after the connection, before the doors. */
  asPart(): { name: string; start(): Promise<void>; stop(): Promise<void> } {
    return { name: 'breakers of peers', start: async () => this.#follow(), stop: async () => this.map.dispose() };
  }

  #follow(): void {
    const { clock, nats, scope } = this.options;
    nats.subscribe(SUBJECTS.breakerChanged, ({ body }) => {
      if (!isJsonObject(body) || body['scope'] !== scope) return;
      const { key, open_for_ms: openForMs } = body;
      if (typeof key !== 'string' || typeof openForMs !== 'number' || this.map.stateOf(key) !== 'closed') return;
      this.#following = true;
      try {
        this.map.openUntil(key, clock.now() + openForMs);
      } finally {
        this.#following = false;
      }
    });
  }
}
