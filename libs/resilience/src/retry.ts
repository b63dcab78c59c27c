import type { Milliseconds } from '@toolfleet/contracts';
import { backoffMs, type Backoff } from './backoff.js';
import type { Clock } from './clock.js';
import type { Deadline } from './deadline.js';

/** What to do after an attempt, decided from its outcome, which is a value and not an exception. */
export type RetryVerdict = { again: false } | { again: true; backoff: Backoff; retryAfterMs?: Milliseconds };

/** One retry that is about to be waited for. */
export interface RetryNotice<T> {
  /** Number of the attempt that will follow, from 2. */
  attempt: number;
  delayMs: Milliseconds;
  outcome: T;
}

export interface RetryOptions<T> {
  clock: Clock;
  deadline: Deadline;
  /** Ends a wait early. */
  signal: AbortSignal;
  /** Counts attempts as it likes; `attempt` is the number of the one that gave the outcome, from 1. */
  judge: (outcome: T, attempt: number) => RetryVerdict;
  /** In [0, 1); replaced in tests. */
  random?: () => number;
  /** Called before the wait; `false` forbids the retry (a retry budget that is used up). */
  onRetry?: (notice: RetryNotice<T>) => boolean | void;
}

/**
 * Repeats `attempt` while the verdict on its outcome says so. A wait that would not end before the deadline is not begun:
 * the last outcome is returned at once, so that the caller still learns the real reason. Own loop instead of p-retry: that
 * repeats on exceptions only and waits on its own timers, so neither outcomes as values nor a fake clock work with it.
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
      return outcome; // cancelled while waiting: nothing new is known
    }
  }
}
