import { LRUCache } from 'lru-cache';
import type { EpochMs } from '@toolfleet/contracts';
import type { Clock } from './clock.js';
import { Breaker, type BreakerRule, type BreakerState, type ProbeLease } from './breaker.js';

/** One change of state, for metrics and for `breaker.changed`. */
export interface BreakerTransition {
  key: string;
  state: BreakerState;
  /** 0 unless open. */
  openUntilAt: EpochMs;
}

const MAX_BREAKERS = 5_000;

/** Breakers by key (a tool, a base URL), the least recently used ones dropped: keys may come from callers. */
export class BreakerMap {
  readonly #breakers: LRUCache<string, Breaker>;

  constructor(
    private readonly rule: BreakerRule,
    private readonly clock: Clock,
    private readonly onTransition?: (transition: BreakerTransition) => void,
    private readonly options: { maxBreakers?: number; mayProbe?: ProbeLease } = {},
  ) {
    this.#breakers = new LRUCache({
      max: options.maxBreakers ?? MAX_BREAKERS,
      dispose: (breaker) => breaker.dispose(),
    });
  }

  /** The breaker of `key`, made closed when there is none. */
  get(key: string): Breaker {
    const existing = this.#breakers.get(key);
    if (existing) return existing;
    const tell = (state: BreakerState, name: string, openUntilAt: EpochMs) =>
      this.onTransition?.({ key: name, state, openUntilAt });
    const breaker = new Breaker(key, this.rule, this.clock, tell, this.options.mayProbe);
    this.#breakers.set(key, breaker);
    return breaker;
  }

  /** State of `key`; closed when nothing is known. */
  stateOf(key: string): BreakerState {
    return this.#breakers.peek(key)?.state ?? 'closed';
  }

  /** Breakers that are not closed, with the time until a probe is let through. */
  troubled(): { key: string; state: 'half_open' | 'open'; retryAfterMs: number }[] {
    const found: ReturnType<BreakerMap['troubled']> = [];
    for (const [key, breaker] of this.#breakers.entries()) {
      const { state } = breaker;
      if (state !== 'closed') found.push({ key, state, retryAfterMs: state === 'open' ? breaker.retryAfterMs : 0 });
    }
    return found;
  }

  /** Opens early because a peer did. Peers never close each other's breakers. */
  openUntil(key: string, untilAt: EpochMs): void {
    this.get(key).openUntil(untilAt);
  }

  /** Ends every breaker. */
  dispose(): void {
    this.#breakers.clear();
  }
}
