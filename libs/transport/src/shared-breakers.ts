import { isJsonObject, OPERATOR_TENANT } from '@toolfleet/contracts';
import type { FleetEvent } from '@toolfleet/contracts/events';
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

/** Options of shared breakers. */
interface SharedBreakersOptions {
  /** The service with the replicas that share them; keys of other services mean something else. */
  scope: string;
  rule: BreakerRule;
  clock: Clock;
  nats: NatsClient;
  /** Grants one half-open probe for all replicas; without it each replica sends its own. */
  mayProbe?: ProbeLease;
  /** Called on every change in this process, also on those a peer caused. */
  onTransition?: (transition: BreakerTransition) => void;
  /** Receives an event when a breaker opens here that was closed. It is in memory only: a process that is killed at once loses it. */
  report?: (event: FleetEvent) => void;
}

const MAX_KEY_CHARS = 512;
const MAX_TENANT_CHARS = 256;
/** Most openings that peers may cause within one recovery time; each opens one breaker for at most that long. */
const MAX_PEER_OPENINGS = 500;
const MAX_OPENED = 5_000;

/**
 * The breakers of one process, shared over NATS: an opening is published to the other replicas of the service that may open early but
 * never close early. The message carries the remaining time, not an instant, because wall clocks of hosts differ. A peer's opening is
 * accepted within bounds: for a key with calls that this process has run, for one tenant or all, for at most the recovery time of the own
 * rule, a bounded number of times, and not against a probe that succeeded here.
 */
export class SharedBreakers {
  readonly map: BreakerMap;
  /** True while a peer's opening is applied, so that it is not published again. */
  #following = false;
  #followed = 0;
  /** Breakers that have opened and not closed since. */
  readonly #opened = new Set<string>();
  #followedSince = Number.NEGATIVE_INFINITY;

  constructor(private readonly options: SharedBreakersOptions) {
    const { scope, rule, clock, nats, mayProbe, onTransition } = options;
    this.map = new BreakerMap(
      rule,
      clock,
      (transition) => {
        onTransition?.(transition);
        this.#reportOpening(transition);
        if (transition.state !== 'open' || this.#following || !nats.connected) return;
        const message: BreakerChanged = {
          key: transition.key,
          tenant_id: transition.tenantId,
          open_for_ms: Math.max(0, transition.openUntilAt - clock.now()),
        };
        nats.publish(breakerSubject(scope), message);
      },
      { mayProbe },
    );
  }

  #reportOpening({ key, tenantId, state, openUntilAt }: BreakerTransition): void {
    const id = JSON.stringify([key, tenantId]);
    if (state === 'closed') this.#opened.delete(id);
    if (state !== 'open' || this.#opened.has(id)) return;
    if (this.#opened.size >= MAX_OPENED) this.#opened.clear();
    this.#opened.add(id);
    const { scope, clock, report } = this.options;
    if (this.#following) return;
    report?.({
      kind: 'breaker.opened',
      tenant_id: tenantId ?? OPERATOR_TENANT,
      at: clock.now(),
      // Breakers of gateways belong to tools.
      tool: scope === 'gateway' ? key.slice(key.indexOf('/') + 1) : undefined,
      data: { key, service: scope, open_until: new Date(openUntilAt).toISOString() },
    });
  }

  /** Breakers that are not closed, as `fleet.status` reports them. */
  status(): BreakerStatus[] {
    return this.map.troubled().map(({ key, tenantId, state, retryAfterMs }) => ({
      key,
      tenant_id: tenantId,
      state,
      open_for_ms: retryAfterMs,
    }));
  }

  /** The subscription to the other replicas as a lifecycle component: after the connection, before the endpoints. */
  asComponent(): { name: string; start(): Promise<void>; stop(): Promise<void> } {
    return { name: 'shared breakers', start: async () => this.#follow(), stop: async () => this.map.dispose() };
  }

  #follow(): void {
    const { clock, nats, scope } = this.options;
    nats.subscribe(breakerSubject(scope), ({ body }) => {
      if (!isOpening(body) || !this.map.knows(body.key)) return;
      const { key, tenant_id: tenantId, open_for_ms: openForMs } = body;
      if (this.map.getState(key, tenantId ?? '') !== 'closed' || !this.#mayFollow()) return;
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

function isOpening(body: unknown): body is BreakerChanged {
  if (!isJsonObject(body)) return false;
  const { key, tenant_id: tenantId, open_for_ms: openForMs } = body;
  const isTenant =
    tenantId === undefined || (typeof tenantId === 'string' && tenantId !== '' && tenantId.length <= MAX_TENANT_CHARS);
  const isTime = typeof openForMs === 'number' && openForMs > 0;
  return typeof key === 'string' && key !== '' && key.length <= MAX_KEY_CHARS && isTenant && isTime;
}
