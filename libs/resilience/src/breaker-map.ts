import type { EpochMs } from '@toolfleet/contracts';
import { RecentMap, type Clock } from '@toolfleet/base';
import type { BreakerJudgement, BreakerOutcome, BreakerRule, BreakerState, ProbeLease } from './breaker.js';
import { TargetBreaker, type TargetTransition, type TenantView } from './target-breaker.js';

/** One change of state, for metrics and for `breaker.changed`. */
export interface BreakerTransition extends TargetTransition {
  key: string;
  /** The worst state of the target for any tenant, after this change. */
  worst: BreakerState;
}

/** A breaker that is not closed. */
interface TroubledBreaker {
  key: string;
  /** The refused tenant; unset: all tenants. */
  tenantId?: string;
  state: 'half_open' | 'open';
  retryAfterMs: number;
}

/** The tenant of a call and its target: a tool, a base URL. */
interface BreakerScope {
  key: string;
  tenantId: string;
}

/** Targets, and breakers of tenants. */
const MAX_BREAKERS = 5_000;

/** Breakers by key (a tool, a base URL). The least recently used ones are dropped, because keys may come from callers. */
export class BreakerMap {
  readonly #targets: RecentMap<string, TargetBreaker>;
  readonly #withBreaker: RecentMap<TenantView, true>;

  constructor(
    private readonly rule: BreakerRule,
    private readonly clock: Clock,
    private readonly onTransition?: (transition: BreakerTransition) => void,
    private readonly options: { maxBreakers?: number; mayProbe?: ProbeLease } = {},
  ) {
    const max = options.maxBreakers ?? MAX_BREAKERS;
    this.#withBreaker = new RecentMap({ max, dispose: (_, view) => view.drop() });
    this.#targets = new RecentMap({ max, dispose: (target) => target.dispose() });
  }

  /**
   * Runs one call of a tenant unless the breaker refuses it. `isProbe`: the call decides whether the breaker closes.
   * @throws what `work` throws; that counts as a failure
   */
  run<T>(
    { key, tenantId }: BreakerScope,
    work: (isProbe: boolean) => Promise<T>,
    judge: (value: T) => BreakerJudgement,
  ): Promise<BreakerOutcome<T>> {
    return this.#target(key).run(tenantId, work, judge);
  }

  /** State of `key` for a tenant, or the worst for any tenant; closed when nothing is known. */
  getState(key: string, tenantId?: string): BreakerState {
    return this.#targets.peek(key)?.getState(tenantId) ?? 'closed';
  }

  /** Whether calls of `key` have recently run in this process. */
  knows(key: string): boolean {
    return this.#targets.peek(key) !== undefined;
  }

  /** Milliseconds until a call of this tenant may pass; 0 when it may now. */
  retryAfterMs({ key, tenantId }: BreakerScope): number {
    return this.#targets.peek(key)?.retryAfterMs(tenantId) ?? 0;
  }

  /** Breakers that are not closed, with the time until a probe may pass. */
  troubled(): TroubledBreaker[] {
    const found: TroubledBreaker[] = [];
    for (const [key, target] of this.#targets.entries()) {
      for (const trouble of target.troubled()) found.push({ key, ...trouble });
    }
    return found;
  }

  /** Opens early because a peer did, for one tenant or for all. Peers never close each other's breakers. */
  openUntil(key: string, untilAt: EpochMs, tenantId?: string): void {
    this.#target(key).openUntil(untilAt, tenantId);
  }

  /** Ends every breaker. */
  dispose(): void {
    this.#targets.clear();
  }

  #target(key: string): TargetBreaker {
    const existing = this.#targets.get(key);
    if (existing) return existing;
    const tell = (transition: TargetTransition) =>
      this.onTransition?.({ key, ...transition, worst: target.getState() });
    const target: TargetBreaker = new TargetBreaker(
      key,
      this.rule,
      this.clock,
      tell,
      this.#withBreaker,
      this.options.mayProbe,
    );
    this.#targets.set(key, target);
    return target;
  }
}
