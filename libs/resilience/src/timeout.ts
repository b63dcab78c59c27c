import type { Milliseconds } from '@toolfleet/contracts';
import type { Clock } from './clock.js';

/** Why a signal made by `withTimeout` was aborted by time. */
export class TimedOut extends Error {
  constructor(readonly timeoutMs: Milliseconds) {
    super(`Timed out after ${Math.round(timeoutMs)}ms`);
    this.name = 'TimedOut';
  }
}

/** A controller that follows a parent signal until `release`, so that long-lived parents collect no listeners. */
export interface LinkedAbort {
  readonly signal: AbortSignal;
  abort(reason: unknown): void;
  release(): void;
}

/** Makes a signal that is aborted with its parent or on its own. */
export function linkAbort(parent?: AbortSignal): LinkedAbort {
  const controller = new AbortController();
  if (!parent) return { signal: controller.signal, abort: (reason) => controller.abort(reason), release: () => {} };
  const follow = () => controller.abort(parent.reason);
  if (parent.aborted) follow();
  else parent.addEventListener('abort', follow, { once: true });
  return {
    signal: controller.signal,
    abort: (reason) => controller.abort(reason),
    release: () => parent.removeEventListener('abort', follow),
  };
}

/**
 * Runs `work` with a signal that is aborted after `timeoutMs` (reason: `TimedOut`) or with `parent`. The work itself is
 * told to stop; the promise rejects at once even when the work ignores its signal. Its late outcome is dropped.
 */
export async function withTimeout<T>(
  clock: Clock,
  timeoutMs: Milliseconds,
  parent: AbortSignal | undefined,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const link = linkAbort(parent);
  const cancel = clock.after(timeoutMs, () => link.abort(new TimedOut(timeoutMs)));
  try {
    return await untilAborted(work(link.signal), link.signal);
  } finally {
    cancel();
    link.release();
  }
}

/** Settles as `promise` does, or rejects with the signal's reason as soon as that is aborted. */
export function untilAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    if (signal.aborted) {
      promise.catch(() => {}); // its outcome is of no interest any more, but must not be "unhandled"
      reject(signal.reason);
      return;
    }
    const onAbort = () => reject(signal.reason);
    signal.addEventListener('abort', onAbort, { once: true });
    promise.then(
      (value) => {
        signal.removeEventListener('abort', onAbort);
        resolve(value);
      },
      (error: unknown) => {
        signal.removeEventListener('abort', onAbort);
        reject(error);
      },
    );
  });
}
