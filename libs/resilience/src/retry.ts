import type { Milliseconds } from '@toolfleet/contracts';
import type { Clock } from '@toolfleet/base';
import type { Deadline } from './deadline.js';

/** Longest wait between two attempts, whatever a policy declares. */
const MAX_BACKOFF_MS = 30_000;

/** Parameters of an exponential backoff. */
export interface Backoff {
  baseMs: Milliseconds;
  multiplier: number;
  /** Cap of one wait; at most `MAX_BACKOFF_MS`. */
  capMs: Milliseconds;
}

/** Longest wait before retry `k` (k = 1 is the second attempt): min(cap, base * mult^(k-1)). */
export function backoffCeilingMs(backoff: Backoff, k: number): Milliseconds {
  const cap = Math.min(backoff.capMs, MAX_BACKOFF_MS);
  return Math.max(0, Math.min(cap, backoff.baseMs * backoff.multiplier ** (k - 1)));
}

/**
 * Wait before retry `k` with full jitter: uniform in [0, ceiling], and never below the `Retry-After` of the upstream. `random` returns
 * a number in [0, 1).
 */
export function backoffMs(backoff: Backoff, k: number, random: () => number, retryAfterMs = 0): Milliseconds {
  return Math.max(retryAfterMs, Math.round(random() * backoffCeilingMs(backoff, k)));
}

/** Whether to try again, decided from the outcome of an attempt: a value, not an exception. */
export type RetryVerdict = { again: false } | { again: true; backoff: Backoff; retryAfterMs?: Milliseconds };

/** A retry that is about to be waited for. */
export interface RetryNotice<T> {
  /** Number of the attempt that will follow, from 2. */
  attempt: number;
  delayMs: Milliseconds;
  outcome: T;
}

interface RetryOptions<T> {
  clock: Clock;
  deadline: Deadline;
  /** Ends a wait early. */
  signal: AbortSignal;
  /** `attempt` is the number of the attempt with this outcome, from 1. */
  judge: (outcome: T, attempt: number) => RetryVerdict;
  /** In [0, 1); replaced in tests. */
  random?: () => number;
  /** Called before the wait; `false` prevents the retry (an exhausted retry budget). */
  onRetry?: (notice: RetryNotice<T>) => boolean | void;
}

/**
 * Repeats `attempt` until `judge` decides otherwise. When a wait would not end before the deadline, the last outcome is returned at once,
 * so that the caller learns the actual reason. Not p-retry: it retries on exceptions only and uses its own timers, so neither outcomes as
 * values nor a fake clock work with it.
 */
export async function retry<T>(options: RetryOptions<T>, attempt: (number: number) => Promise<T>): Promise<T> {
  const { clock, deadline, signal, judge, random = Math.random } = options;
  for (let number = 1; ; number += 1) {
    const outcome = await attempt(number);
    const verdict = judge(outcome, number);
    if (!verdict.again || signal.aborted) return outcome;
    const delayMs = backoffMs(verdict.backoff, number, random, verdict.retryAfterMs);
    if (delayMs >= deadline.remainingMs()) return outcome;
    if (options.onRetry?.({ attempt: number + 1, delayMs, outcome }) === false) return outcome;
    try {
      await clock.sleep(delayMs, signal);
    } catch {
      return outcome; // cancelled while waiting
    }
  }
}

/** Retries in reserve, so that calls to a rarely used target can be retried. */
const RESERVE = 10;
/** Calls per retry. */
const CALLS_PER_RETRY = 10;

/**
 * Limits retries to 10 % of the calls to one target. Without it a failing upstream would get a multiple of its normal load.
 */
export class RetryBudget {
  /** In calls, so that it stays an integer. */
  #balance = RESERVE * CALLS_PER_RETRY;

  /** Counts one call. */
  deposit(): void {
    this.#balance = Math.min(RESERVE * CALLS_PER_RETRY, this.#balance + 1);
  }

  /** Takes one retry if there is one left. */
  withdraw(): boolean {
    if (this.#balance < CALLS_PER_RETRY) return false;
    this.#balance -= CALLS_PER_RETRY;
    return true;
  }
}
