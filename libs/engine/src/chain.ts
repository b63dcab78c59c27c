import type { CallResult } from '@toolfleet/contracts';
import type { Interceptor, Next, Observer, CallTrace } from './call.js';

/**
 * Joins interceptors, outermost first, in front of `execute`; done once at boot. Each gets its own closure as `next`, so
 * that calling it again runs everything inside once more. An index kept in the chain would skip on the second call what
 * was passed on the first.
 */
export const compose = (interceptors: readonly Interceptor[], execute: Next): Next =>
  interceptors.reduceRight<Next>((next, intercept) => (call) => intercept(call, next), execute);

/** The same for observers, which wrap the whole call. */
export const observe = (
  observers: readonly Observer[],
  run: (seen: CallTrace) => Promise<CallResult>,
): ((seen: CallTrace) => Promise<CallResult>) =>
  observers.reduceRight<(seen: CallTrace) => Promise<CallResult>>(
    (next, watch) => (seen: CallTrace) => watch(seen, next),
    run,
  );
