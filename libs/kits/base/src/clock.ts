import type { EpochMs, Milliseconds } from './units.js';

/** Cancels a timer. Calling it twice, or after the timer fired, does nothing. */
export type CancelTimer = () => void;

/**
 * The only source of time, so that rules can be tested with a fake clock. Injected by type (abstract class = DI token).
 * `now` is wall time and may jump; intervals and deadlines are measured on `monotonic`.
 */
export abstract class Clock {
  /** Wall clock, epoch ms. */
  abstract now(): EpochMs;
  /** Milliseconds since an arbitrary start; never goes back. */
  abstract monotonic(): Milliseconds;
  /** Runs `fire` once after `delayMs`. The timer never keeps the process alive. */
  abstract after(delayMs: Milliseconds, fire: () => void): CancelTimer;

  /** Resolves after `delayMs`, or rejects with the signal's reason when aborted first. */
  sleep(delayMs: Milliseconds, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      const stop = () => {
        cancel();
        reject(signal?.reason);
      };
      const cancel = this.after(delayMs, () => {
        signal?.removeEventListener('abort', stop);
        resolve();
      });
      signal?.addEventListener('abort', stop, { once: true });
    });
  }
}

/** Longest delay Node's timers accept; longer ones fire at once there. */
const MAX_TIMER_MS = 2_147_483_647;

/** The real clock. */
export class SystemClock extends Clock {
  override now(): EpochMs {
    return Date.now();
  }

  override monotonic(): Milliseconds {
    return performance.now();
  }

  override after(delayMs: Milliseconds, fire: () => void): CancelTimer {
    // Node keeps a list per duration: with fractions of milliseconds every call would get its own list.
    const timer = setTimeout(fire, Math.ceil(Math.min(Math.max(0, delayMs), MAX_TIMER_MS)));
    timer.unref();
    return () => clearTimeout(timer);
  }
}

/**
 * Calls `action` once a signal is aborted. @returns a function that ends this
 *
 * Keep that function, not the action (`this.stop = () => …`): V8 allocates a function literal that is assigned to a property in the old
 * generation, where it keeps all that it refers to, often a whole call, through all minor collections.
 */
export function onAbort(signal: AbortSignal, action: () => void): () => void {
  signal.addEventListener('abort', action, { once: true });
  return () => signal.removeEventListener('abort', action);
}
