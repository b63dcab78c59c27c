import CircuitBreaker from 'opossum';
import { EventEmitter } from 'node:events';
import type { EpochMs, Milliseconds } from '@toolfleet/contracts';
import type { Clock } from './clock.js';

/** State of a breaker as shown in metrics and events. */
export type BreakerState = 'closed' | 'half_open' | 'open';

/** When a breaker opens. */
export interface BreakerRule {
  /** Opens after so many failures in a row (5 per base URL). */
  consecutiveFailures?: number;
  /** Opens when this share of the calls in the window failed (0.5 of at least 20 in 30 s). */
  errorRate?: { threshold: number; windowMs: Milliseconds; minCalls: number };
  /** Stays open so long, then lets one probe through. */
  recoveryMs: Milliseconds;
}

/** Per base URL, in the executors. */
export const CONSECUTIVE_RULE: BreakerRule = { consecutiveFailures: 5, recoveryMs: 60_000 };
/** Per tool, in the engine. */
export const ERROR_RATE_RULE: BreakerRule = {
  errorRate: { threshold: 0.5, windowMs: 30_000, minCalls: 20 },
  recoveryMs: 30_000,
};

/** How an outcome counts. `ignored`: says nothing about the target (the caller cancelled, say). */
export type BreakerJudgement = 'success' | 'failure' | 'ignored';

/** What `Breaker.run` gives: the outcome of the work, or the refusal to run it. */
export type BreakerOutcome<T> = { refused: false; value: T } | { refused: true; retryAfterMs: Milliseconds };

/**
 * Asks whether this process may send the one probe of a half-open breaker; false while another process holds the lease.
 * Must answer true when it cannot know: then it is one probe per process.
 */
export type ProbeLease = (name: string, forMs: Milliseconds) => Promise<boolean>;

const BUCKETS = 10;
/** Carries an outcome that counts as a failure through opossum, which counts exceptions. */
class CountedFailure extends Error {
  constructor(readonly value: unknown) {
    super('counted as a failure');
  }
}

/**
 * Fails fast while a target is down. opossum keeps the window and the states; this class adds what it lacks: outcomes
 * as values, the consecutive rule, a window that starts empty after recovery, a probe that ends without a verdict
 * (cancelled) not counting as success, and opening early because a peer asked for it.
 */
export class Breaker {
  readonly #circuit: CircuitBreaker<[() => Promise<unknown>], unknown>;
  readonly #forget: () => void;
  #failuresInARow = 0;
  #openUntilAt: EpochMs = 0;

  constructor(
    readonly name: string,
    private readonly rule: BreakerRule,
    private readonly clock: Clock,
    onTransition?: (state: BreakerState, name: string, openUntilAt: EpochMs) => void,
    private readonly mayProbe?: ProbeLease,
  ) {
    const { threshold, windowMs, minCalls } = rule.errorRate ?? { threshold: 2, windowMs: 30_000, minCalls: 1 };
    const turns = rotation(clock, windowMs);
    const counted = countingStatus(windowMs, turns);
    this.#forget = counted.forget;
    this.#circuit = new CircuitBreaker((work: () => Promise<unknown>) => work(), {
      name,
      status: counted.status,
      timeout: false, // attempts have their own time limit, which really stops the work
      resetTimeout: rule.recoveryMs,
      errorThresholdPercentage: threshold * 100 - 1e-9, // opossum compares with >, the rule says "at the threshold"
      volumeThreshold: minCalls,
      rollingCountTimeout: windowMs,
      rollingCountBuckets: BUCKETS,
      rollingPercentilesEnabled: false,
      enableSnapshots: false,
      rotateBucketController: turns,
    });
    this.#circuit.on('open', () => {
      this.#failuresInARow = 0;
      this.#openUntilAt =
        clock.now() + (this.#circuit as unknown as { options: { resetTimeout: number } }).options.resetTimeout;
      onTransition?.('open', name, this.#openUntilAt);
    });
    this.#circuit.on('halfOpen', () => onTransition?.('half_open', name, 0));
    this.#circuit.on('close', () => {
      this.#failuresInARow = 0;
      this.#clearWindow();
      onTransition?.('closed', name, 0);
    });
  }

  get state(): BreakerState {
    if (this.#circuit.opened) return 'open';
    return this.#circuit.halfOpen ? 'half_open' : 'closed';
  }

  /** Milliseconds until a probe is let through; 0 unless open. */
  get retryAfterMs(): Milliseconds {
    return this.state === 'closed' ? 0 : Math.max(1, this.#openUntilAt - this.clock.now());
  }

  /**
   * Runs `work` unless open, or half-open with its one probe under way.
   * @throws whatever `work` throws; that counts as a failure
   */
  async run<T>(work: () => Promise<T>, judge: (value: T) => BreakerJudgement): Promise<BreakerOutcome<T>> {
    if (this.mayProbe && this.state === 'half_open' && !(await this.mayProbe(this.name, this.rule.recoveryMs))) {
      return { refused: true, retryAfterMs: this.retryAfterMs };
    }
    try {
      const value = (await this.#circuit.fire(async () => {
        const outcome = await work();
        if (this.#counts(judge(outcome))) throw new CountedFailure(outcome);
        return outcome;
      })) as T;
      return { refused: false, value };
    } catch (error) {
      if (error instanceof CountedFailure) {
        this.#countFailure();
        return { refused: false, value: error.value as T };
      }
      if (CircuitBreaker.isOurError(error as Error)) return { refused: true, retryAfterMs: this.retryAfterMs };
      this.#countFailure();
      throw error;
    }
  }

  /** Opens because a peer saw the target fail; never shortens or prolongs what this breaker decided itself. */
  openUntil(untilAt: EpochMs): void {
    const forMs = Math.min(untilAt - this.clock.now(), this.rule.recoveryMs);
    if (forMs <= 0 || this.state !== 'closed') return;
    const options = (this.#circuit as unknown as { options: { resetTimeout: number } }).options;
    options.resetTimeout = forMs;
    this.#circuit.open();
    options.resetTimeout = this.rule.recoveryMs;
  }

  /** Ends timers and listeners of this breaker. */
  dispose(): void {
    this.#circuit.shutdown();
    this.#forget();
  }

  /** A probe without a verdict must not close the breaker, so there `ignored` counts as failed. */
  #counts(judgement: BreakerJudgement): boolean {
    if (judgement === 'success') this.#failuresInARow = 0;
    return judgement === 'failure' || (judgement === 'ignored' && this.state === 'half_open');
  }

  #countFailure(): void {
    this.#failuresInARow += 1;
    if (this.#failuresInARow >= (this.rule.consecutiveFailures ?? Number.POSITIVE_INFINITY)) this.#circuit.open();
  }

  #clearWindow(): void {
    for (const bucket of this.#circuit.status.window) {
      bucket.failures = 0;
      bucket.fires = 0;
    }
  }
}

/** opossum keeps the latency of every call of the window, which nobody reads here; this status only counts. */
function countingStatus(
  windowMs: Milliseconds,
  turns: EventEmitter,
): { status: CircuitBreaker.Status; forget(): void } {
  const status = CircuitBreaker.newStatus({
    rollingCountTimeout: windowMs,
    rollingCountBuckets: BUCKETS,
    rollingPercentilesEnabled: false,
    enableSnapshots: false,
    rotateBucketController: turns,
  } as CircuitBreaker.StatusOptions);
  const newest = () => status.window[0] as unknown as Record<string, number>;
  let current = newest();
  const turn = () => {
    current = newest();
  };
  turns.on('rotate', turn); // after the status' own listener, which makes the new bucket
  const increment = (property: string) => {
    current[property] = (current[property] ?? 0) + 1;
  };
  return { status: Object.assign(status, { increment }), forget: () => turns.off('rotate', turn) };
}

const rotations = new WeakMap<Clock, Map<Milliseconds, EventEmitter>>();

/** One timer per clock and window for all breakers, instead of one interval each. */
function rotation(clock: Clock, windowMs: Milliseconds): EventEmitter {
  const ofClock = rotations.get(clock) ?? new Map<Milliseconds, EventEmitter>();
  rotations.set(clock, ofClock);
  const existing = ofClock.get(windowMs);
  if (existing) return existing;
  const emitter = new EventEmitter();
  emitter.setMaxListeners(0);
  ofClock.set(windowMs, emitter);
  const turn = () => {
    emitter.emit('rotate');
    clock.after(windowMs / BUCKETS, turn);
  };
  clock.after(windowMs / BUCKETS, turn);
  return emitter;
}
