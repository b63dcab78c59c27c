import CircuitBreaker from 'opossum';
import { EventEmitter } from 'node:events';
import type { EpochMs, Milliseconds } from '@toolfleet/contracts';
import type { Clock } from '@toolfleet/base';

/** State of a breaker in metrics and events. */
export type BreakerState = 'closed' | 'half_open' | 'open';

/** States as the value of a gauge. */
export const BREAKER_GAUGE = { closed: 0, half_open: 1, open: 2 } as const satisfies Record<BreakerState, number>;

/** When a breaker opens. */
export interface BreakerRule {
  /** Opens after this many consecutive failures (executors: 5). */
  consecutiveFailures?: number;
  /** Opens when this share of the calls in the window failed (engine: 0.5 of at least 20 in 30 s). */
  errorRate?: { threshold: number; windowMs: Milliseconds; minCalls: number };
  /** How long it stays open before it lets one probe through. */
  recoveryMs: Milliseconds;
}

/** How an outcome counts. `ignored`: it says nothing about the target, for example because the caller cancelled. */
export type BreakerJudgement = 'success' | 'failure' | 'ignored';

/** Result of `Breaker.run`: the outcome of the work, or the refusal to run it. */
export type BreakerOutcome<T> = { refused: false; value: T } | { refused: true; retryAfterMs: Milliseconds };

/**
 * Asks whether this process may send the one probe of a half-open breaker; false while another process holds the lease.
 * Must return true when it cannot know; then each process sends its own probe.
 */
export type ProbeLease = (name: string, forMs: Milliseconds) => Promise<boolean>;

const BUCKETS = 10;
const NO_RATE = { threshold: 2, windowMs: 30_000, minCalls: 1 };

/** Carries an outcome that counts as a failure through opossum as an exception. */
class CountedFailure extends Error {
  constructor(readonly value: unknown) {
    super('counted as a failure');
  }
}

/** Calls of a window, and how many of them failed. */
export interface CallCounts {
  calls: number;
  failures: number;
}

/** Reports of a breaker to its owner. */
interface BreakerListener {
  /** @param openUntilAt 0 unless open */
  transition?(state: BreakerState, openUntilAt: EpochMs): void;
  /** After every counted failure and success. */
  counted?(failed: boolean): void;
}

type Circuit = CircuitBreaker<[() => Promise<unknown>], unknown>;

/**
 * Fails fast while a target is down. opossum keeps the window, the states and the one probe; this class adds what it lacks:
 * outcomes as values, the consecutive rule, a window that starts empty after recovery, an inconclusive probe (cancelled) that does
 * not count as a success, and opening early because a peer did. Where opossum has no setting for that, its circuit is replaced by a new
 * one in the required state.
 */
export class Breaker {
  #circuit: Circuit;
  #failuresInARow = 0;
  #openUntilAt: EpochMs = 0;
  /** Until then a successful probe of this process overrides openings of peers. */
  #provenUntilAt: EpochMs = 0;

  /** @param before calls of the current window that were not run through this breaker */
  constructor(
    readonly name: string,
    private readonly rule: BreakerRule,
    private readonly clock: Clock,
    private readonly listener: BreakerListener = {},
    private readonly mayProbe?: ProbeLease,
    before = 0,
  ) {
    this.#circuit = this.#newCircuit(rule.recoveryMs, 'closed', before);
  }

  get state(): BreakerState {
    if (this.#circuit.opened) return 'open';
    return this.#circuit.halfOpen ? 'half_open' : 'closed';
  }

  /** Milliseconds until a probe is let through; 0 unless open. */
  get retryAfterMs(): Milliseconds {
    return this.state === 'closed' ? 0 : Math.max(1, this.#openUntilAt - this.clock.now());
  }

  /** True for one recovery time after a probe succeeded. */
  get isProven(): boolean {
    return this.clock.now() < this.#provenUntilAt;
  }

  /** Calls of the window of the error rate. */
  get counts(): CallCounts {
    const { fires, failures } = this.#circuit.stats;
    return { calls: fires, failures };
  }

  /**
   * Runs `work` unless the breaker is open, or half-open with a probe in flight. `isProbe` tells the work whether it is the probe.
   * @throws what `work` throws; that counts as a failure
   */
  async run<T>(
    work: (isProbe: boolean) => Promise<T>,
    judge: (value: T) => BreakerJudgement,
  ): Promise<BreakerOutcome<T>> {
    if (this.mayProbe && this.state === 'half_open' && !(await this.mayProbe(this.name, this.rule.recoveryMs))) {
      return { refused: true, retryAfterMs: this.retryAfterMs };
    }
    try {
      const value = (await this.#circuit.fire(async () => {
        const outcome = await work(this.state === 'half_open');
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

  /**
   * Opens because a peer saw the target fail; never shortens or extends this breaker's own decision. An instant in the past makes
   * it half-open: the next call is a probe.
   */
  openUntil(untilAt: EpochMs): void {
    if (this.state !== 'closed') return;
    const forMs = Math.min(untilAt - this.clock.now(), this.rule.recoveryMs);
    this.#replace(this.#newCircuit(forMs > 0 ? forMs : this.rule.recoveryMs, forMs > 0 ? 'closed' : 'half_open'));
    if (forMs > 0) this.#circuit.open();
    else this.listener.transition?.('half_open', 0);
  }

  /** Ends timers and listeners of this breaker. */
  dispose(): void {
    this.#circuit.shutdown();
  }

  #newCircuit(resetMs: Milliseconds, state: 'closed' | 'half_open', before = 0): Circuit {
    const { threshold, windowMs, minCalls } = this.rule.errorRate ?? NO_RATE;
    const window = {
      rollingCountTimeout: windowMs,
      rollingCountBuckets: BUCKETS,
      rollingPercentilesEnabled: false,
      enableSnapshots: false,
      rotateBucketController: rotation(this.clock, windowMs),
    };
    const seed = { ...window, stats: { fires: before, successes: before } } as unknown as CircuitBreaker.StatusOptions;
    const options = {
      ...window,
      name: this.name,
      status: CircuitBreaker.newStatus(seed),
      timeout: false as const, // attempts have their own time limit and really stop the work
      resetTimeout: resetMs,
      errorThresholdPercentage: threshold * 100 - 1e-9, // opossum compares with >, the rule says "at the threshold"
      volumeThreshold: minCalls,
      ...(state === 'half_open' ? { state: { closed: false, halfOpen: true } } : {}),
    };
    const circuit: Circuit = new CircuitBreaker((work: () => Promise<unknown>) => work(), options);
    circuit.on('open', () => {
      this.#failuresInARow = 0;
      this.#openUntilAt = this.clock.now() + resetMs;
      this.listener.transition?.('open', this.#openUntilAt);
    });
    circuit.on('halfOpen', () => {
      // A failed probe opens for the whole recovery time of the rule, also when a peer's opening was shorter.
      if (resetMs !== this.rule.recoveryMs) this.#replace(this.#newCircuit(this.rule.recoveryMs, 'half_open'));
      this.listener.transition?.('half_open', 0);
    });
    circuit.on('close', () => {
      this.#failuresInARow = 0;
      this.#provenUntilAt = this.clock.now() + this.rule.recoveryMs;
      this.#replace(this.#newCircuit(this.rule.recoveryMs, 'closed')); // its window is empty
      this.listener.transition?.('closed', 0);
    });
    return circuit;
  }

  #replace(circuit: Circuit): void {
    this.#circuit.shutdown();
    this.#circuit = circuit;
  }

  /** An inconclusive probe must not close the breaker, so for a probe `ignored` counts as failed. */
  #counts(judgement: BreakerJudgement): boolean {
    if (judgement === 'success') {
      this.#failuresInARow = 0;
      this.listener.counted?.(false);
    }
    return judgement === 'failure' || (judgement === 'ignored' && this.state === 'half_open');
  }

  #countFailure(): void {
    this.#failuresInARow += 1;
    if (this.#failuresInARow >= (this.rule.consecutiveFailures ?? Number.POSITIVE_INFINITY)) this.#circuit.open();
    this.listener.counted?.(true);
  }
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
