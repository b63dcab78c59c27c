import type { EpochMs, Milliseconds } from '@toolfleet/contracts';
import {
  Breaker,
  type BreakerJudgement,
  type BreakerOutcome,
  type BreakerRule,
  type BreakerState,
  type CallCounts,
  type ProbeLease,
} from './breaker.js';
import { RecentMap, type CancelTimer, type Clock } from '@toolfleet/base';

/** A change of state for one tenant, or for all when there is no tenant. */
export interface TargetTransition {
  tenantId?: string;
  state: BreakerState;
  /** 0 unless open. */
  openUntilAt: EpochMs;
}

/** Tenants with counted calls of one target; the least recently used ones are dropped. */
const MAX_TENANTS = 500;
/** The share of all calls is looked at so often at most: that takes a look at every tenant. */
const LOOK_EVERY_MS = 250;
/** Tenants that must see a target down before it is down for all. */
const AGREEING_TENANTS = 2;

/** What one tenant's calls say about a target. While none of them fails this is a count and nothing else. */
export class TenantView {
  breaker: Breaker | undefined;
  /** The opening for all tenants that this view has taken over. */
  opening = 0;
  #windowFrom: Milliseconds = 0;
  #calls = 0;
  #before = 0;

  constructor(
    private readonly clock: Clock,
    private readonly windowMs: Milliseconds,
  ) {}

  /** Ends the breaker; its counts are forgotten. */
  drop(): void {
    this.breaker?.dispose();
    this.breaker = undefined;
  }

  /** Counts a call that did not fail. */
  count(): void {
    this.#turn();
    this.#calls += 1;
  }

  /** Calls of about the last window. */
  get calls(): number {
    this.#turn();
    return this.#calls + this.#before;
  }

  #turn(): void {
    const now = this.clock.monotonic();
    const half = this.windowMs / 2;
    if (now - this.#windowFrom < half) return;
    this.#before = now - this.#windowFrom < this.windowMs ? this.#calls : 0;
    this.#calls = 0;
    this.#windowFrom = now;
  }
}

/**
 * The breaker of one target, seen by each tenant: a tenant's calls open it for that tenant alone, because what makes them fail
 * may be what it sends. It opens for all tenants when two of them see it open at the same time, or when the rule holds for
 * the calls of all tenants together, whichever single tenant is left out. Afterwards each tenant probes for itself.
 */
export class TargetBreaker {
  readonly #views: RecentMap<string, TenantView>;
  /** Number and end of the last opening for all. */
  #opening = 0;
  #openUntilAt: EpochMs = 0;
  #cancelEnd: CancelTimer = () => {};
  #lookedAt: Milliseconds = Number.NEGATIVE_INFINITY;
  /** Failures of each tenant since the last success of any. */
  readonly #failuresInARow = new Map<string, number>();

  constructor(
    private readonly name: string,
    private readonly rule: BreakerRule,
    private readonly clock: Clock,
    private readonly onTransition: (transition: TargetTransition) => void,
    /** Views with a breaker, of all targets: the least recently used ones lose it. */
    private readonly withBreaker: RecentMap<TenantView, true>,
    private readonly mayProbe?: ProbeLease,
  ) {
    this.#views = new RecentMap({ max: MAX_TENANTS, dispose: (view) => this.withBreaker.delete(view) });
  }

  /** @throws whatever `work` throws; that counts as a failure */
  async run<T>(
    tenantId: string,
    work: (isProbe: boolean) => Promise<T>,
    judge: (value: T) => BreakerJudgement,
  ): Promise<BreakerOutcome<T>> {
    const view = this.#view(tenantId);
    if (view.opening !== this.#opening) {
      view.opening = this.#opening;
      const isRecent = this.clock.now() < this.#openUntilAt + this.rule.recoveryMs;
      if (isRecent) this.#breakerOf(tenantId, view).openUntil(this.#openUntilAt);
    }
    if (view.breaker) return this.#breakerOf(tenantId, view).run(work, judge);
    // Nothing of this tenant has failed: there is nothing to refuse. A failure is counted by a breaker made for it.
    let judgement: BreakerJudgement;
    let value: T;
    try {
      value = await work(false);
      judgement = judge(value);
    } catch (error) {
      await this.#recordFailure(tenantId, view);
      throw error;
    }
    if (judgement === 'failure') await this.#recordFailure(tenantId, view);
    else {
      view.count();
      if (judgement === 'success') this.#counted(tenantId, false);
    }
    return { refused: false, value };
  }

  /** For one tenant, or the worst state of any. */
  getState(tenantId?: string): BreakerState {
    if (this.#isOpenForAll) return 'open';
    if (tenantId !== undefined) return this.#views.peek(tenantId)?.breaker?.state ?? 'closed';
    const states = new Set(this.#views.values().map(({ breaker }) => breaker?.state));
    return states.has('open') ? 'open' : states.has('half_open') ? 'half_open' : 'closed';
  }

  /** Milliseconds until a call of this tenant may be let through. */
  retryAfterMs(tenantId: string): Milliseconds {
    if (this.#isOpenForAll) return Math.max(1, this.#openUntilAt - this.clock.now());
    return this.#views.peek(tenantId)?.breaker?.retryAfterMs ?? 0;
  }

  /** For all tenants, else for each that is concerned. */
  troubled(): { tenantId?: string; state: 'half_open' | 'open'; retryAfterMs: Milliseconds }[] {
    if (this.#isOpenForAll) return [{ state: 'open', retryAfterMs: this.retryAfterMs('') }];
    return this.#views.entries().flatMap(([tenantId, { breaker }]) => {
      if (!breaker || breaker.state === 'closed') return [];
      return [{ tenantId, state: breaker.state, retryAfterMs: breaker.state === 'open' ? breaker.retryAfterMs : 0 }];
    });
  }

  /** Opens early because a peer did, for at most the time of the rule. */
  openUntil(untilAt: EpochMs, tenantId?: string): void {
    if (untilAt <= this.clock.now()) return;
    if (tenantId === undefined) {
      if (this.#views.values().some(({ breaker }) => breaker?.isProven)) return;
      this.#openForAll(Math.min(untilAt, this.clock.now() + this.rule.recoveryMs));
    } else {
      const breaker = this.#breakerOf(tenantId, this.#view(tenantId));
      if (!breaker.isProven) breaker.openUntil(untilAt);
    }
  }

  dispose(): void {
    this.#cancelEnd();
    this.#views.clear();
  }

  get #isOpenForAll(): boolean {
    return this.clock.now() < this.#openUntilAt;
  }

  #view(tenantId: string): TenantView {
    const existing = this.#views.get(tenantId);
    if (existing) return existing;
    const view = new TenantView(this.clock, this.rule.errorRate?.windowMs ?? this.rule.recoveryMs);
    this.#views.set(tenantId, view);
    return view;
  }

  #breakerOf(tenantId: string, view: TenantView): Breaker {
    if (this.withBreaker.get(view) && view.breaker) return view.breaker;
    this.withBreaker.set(view, true);
    return (view.breaker = new Breaker(
      `${this.name} ${tenantId}`,
      this.rule,
      this.clock,
      {
        transition: (state, openUntilAt) => this.#changed(tenantId, state, openUntilAt),
        counted: (failed) => this.#counted(tenantId, failed),
      },
      this.mayProbe,
      view.calls,
    ));
  }

  async #recordFailure(tenantId: string, view: TenantView): Promise<void> {
    const breaker = this.#breakerOf(tenantId, view);
    // A call that began before the breaker opened must not take the place of its probe.
    if (breaker.state !== 'closed') return;
    await breaker.run(
      async () => undefined,
      () => 'failure',
    );
  }

  #changed(tenantId: string, state: BreakerState, openUntilAt: EpochMs): void {
    this.onTransition({ tenantId, state, openUntilAt });
    if (state !== 'open' || this.#isOpenForAll) return;
    const open = this.#views.values().filter(({ breaker }) => breaker?.state === 'open').length;
    if (open >= AGREEING_TENANTS) this.#openForAll(this.clock.now() + this.rule.recoveryMs);
  }

  #counted(tenantId: string, failed: boolean): void {
    if (!failed) {
      if (this.#failuresInARow.size > 0) this.#failuresInARow.clear();
      return;
    }
    if (this.rule.consecutiveFailures !== undefined && this.#views.size > 1) {
      this.#failuresInARow.set(tenantId, (this.#failuresInARow.get(tenantId) ?? 0) + 1);
    }
    if (!this.#isOpenForAll && this.#allAgree()) this.#openForAll(this.clock.now() + this.rule.recoveryMs);
  }

  /** Whether the rule holds for all calls, whichever single tenant is left out. With two tenants their views decide. */
  #allAgree(): boolean {
    if (this.#views.size <= AGREEING_TENANTS) return false;
    const { consecutiveFailures, errorRate } = this.rule;
    if (consecutiveFailures !== undefined) {
      const failures = [...this.#failuresInARow.values()];
      return sum(failures) - Math.max(0, ...failures) >= consecutiveFailures;
    }
    const now = this.clock.monotonic();
    if (!errorRate || now - this.#lookedAt < LOOK_EVERY_MS) return false;
    this.#lookedAt = now;
    const counts = this.#views
      .values()
      .map((view): CallCounts => view.breaker?.counts ?? { calls: view.calls, failures: 0 });
    const calls = sum(counts.map((one) => one.calls));
    const failures = sum(counts.map((one) => one.failures));
    return counts.every((one) => {
      const others = calls - one.calls;
      return others >= errorRate.minCalls && failures - one.failures >= errorRate.threshold * others;
    });
  }

  #openForAll(untilAt: EpochMs): void {
    if (this.#isOpenForAll) return;
    this.#opening += 1;
    this.#openUntilAt = untilAt;
    this.#failuresInARow.clear();
    this.#cancelEnd();
    this.#cancelEnd = this.clock.after(untilAt - this.clock.now(), () =>
      this.onTransition({ state: 'half_open', openUntilAt: 0 }),
    );
    this.onTransition({ state: 'open', openUntilAt: untilAt });
  }
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
