import { isJsonObject } from '@toolfleet/contracts';
import type { BreakerChanged, BreakerStatus } from '@toolfleet/contracts/fleet';
import { breakerSubject } from '@toolfleet/contracts/subjects';
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

const MAX_KEY_CHARS = 512;
const MAX_TENANT_CHARS = 256;
/** Openings that peers may cause in one recovery time; each opens one breaker for at most that long. */
const MAX_PEER_OPENINGS = 500;

/**
 * Breakers of one process; an opening is told to the other replicas of the service, who may open early but never close early.
 * The remaining time travels, not an instant: wall clocks of hosts are never compared. A peer is believed within bounds: for a key
 * whose calls this process has run, for a tenant or all, for the time of the own rule, a number of times, and not against a probe
 * that succeeded here.
 */
export class SharedBreakers {
  readonly map: BreakerMap;
  /** True while a peer's word is being followed: it is not passed on again. */
  #following = false;
  #followed = 0;
  #followedSince = Number.NEGATIVE_INFINITY;

  constructor(private readonly options: SharedBreakersOptions) {
    const { scope, rule, clock, nats, mayProbe, onTransition } = options;
    this.map = new BreakerMap(
      rule,
      clock,
      (transition) => {
        onTransition?.(transition);
        if (transition.state !== 'open' || this.#following || !nats.connected) return;
        nats.publish(breakerSubject(scope), {
          key: transition.key,
          tenant_id: transition.tenantId,
          open_for_ms: Math.max(0, transition.openUntilAt - clock.now()),
        } satisfies Unset<BreakerChanged>);
      },
      mayProbe ? { mayProbe } : {},
    );
  }

  /** Breakers that are not closed, as `fleet.status` reports them. */
  status(): BreakerStatus[] {
    return this.map.troubled().map(({ key, tenantId, state, retryAfterMs }) => ({
      key,
      ...(tenantId === undefined ? {} : { tenant_id: tenantId }),
      state,
      open_for_ms: retryAfterMs,
    }));
  }

  /** Listening to the other replicas, as a part of a service: after the connection, before the doors. */
  asPart(): { name: string; start(): Promise<void>; stop(): Promise<void> } {
    return { name: 'breakers of peers', start: async () => this.#follow(), stop: async () => this.map.dispose() };
  }

  #follow(): void {
    const { clock, nats, scope } = this.options;
    nats.subscribe(breakerSubject(scope), ({ body }) => {
      if (!isOpening(body) || !this.map.knows(body.key)) return;
      const { key, tenant_id: tenantId, open_for_ms: openForMs } = body;
      if (this.map.stateOf(key, tenantId ?? '') !== 'closed' || !this.#mayFollow()) return;
      this.#following = true;
      try {
        this.map.openUntil(key, clock.now() + openForMs, tenantId);
      } finally {
        this.#following = false;
      }
    });
  }

  #mayFollow(): boolean {
    const now = this.options.clock.monotonic();
    if (now - this.#followedSince >= this.options.rule.recoveryMs) {
      this.#followedSince = now;
      this.#followed = 0;
    }
    this.#followed += 1;
    return this.#followed <= MAX_PEER_OPENINGS;
  }
}

/** A message as it is written: JSON drops what is undefined. */
type Unset<T> = { [K in keyof T]: T[K] | undefined };

function isOpening(body: unknown): body is BreakerChanged {
  if (!isJsonObject(body)) return false;
  const { key, tenant_id: tenantId, open_for_ms: openForMs } = body;
  const isTenant =
    tenantId === undefined || (typeof tenantId === 'string' && tenantId !== '' && tenantId.length <= MAX_TENANT_CHARS);
  const isTime = typeof openForMs === 'number' && openForMs > 0;
  return typeof key === 'string' && key !== '' && key.length <= MAX_KEY_CHARS && isTenant && isTime;
}
