import type { Clock } from './clock.js';
import type { Deadline } from './deadline.js';
import { backoffMs, type Backoff } from './backoff.js';

/** What to do after an attempt, decided from its outcome, which is a value and not an exception (K!22). */
export type RetryVerdict = { again: false } | { again: true; retryAfterMs?: number };

/** One retry that is about to be waited for. */
export interface RetryNotice<T> {
  /** Number of the attempt that will follow, from 2. */
  attempt: number;
  maxAttempts: number;
  delayMs: number;
  outcome: T;
}

export interface RetryOptions<T> {
  clock: Clock;
  deadline: Deadline;
  signal: AbortSignal;
  /** Attempts in all, the first included. */
  maxAttempts: number;
  backoff: Backoff;
  judge: (outcome: T, attempt: number) => RetryVerdict;
  /** In [0, 1); replaced in tests. */
  random?: () => number;
  onRetry?: (notice: RetryNotice<T>) => void;
}

/**
 * Repeats `attempt` while the verdict on its outcome says so. A wait that would not end before the deadline is not begun:
 * the last outcome is returned at once, so that the caller still learns the real reason. Waits end early when cancelled.
 * Own loop instead of p-retry: that repeats on exceptions only and waits on its own timers, so neither outcomes as
 * values nor a fake clock are possible with it.
 */
export async function retry<T>(options: RetryOptions<T>, attempt: (number: number) => Promise<T>): Promise<T> {
  const { clock, deadline, signal, maxAttempts, backoff, judge, random = Math.random } = options;
  for (let number = 1; ; number += 1) {
    const outcome = await attempt(number);
    if (number >= maxAttempts || signal.aborted) return outcome;
    const verdict = judge(outcome, number);
    if (!verdict.again) return outcome;
    const delayMs = backoffMs(backoff, number, random, verdict.retryAfterMs);
    if (delayMs >= deadline.remainingMs()) return outcome;
    options.onRetry?.({ attempt: number + 1, maxAttempts, delayMs, outcome });
    try {
      await clock.sleep(delayMs, signal);
    } catch {
      return outcome; // cancelled while waiting: nothing new is known
    }
  }
}
