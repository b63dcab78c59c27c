export { Clock, SystemClock, type CancelTimer } from './clock.js';
export { Deadline } from './deadline.js';
export { linkAbort, TimedOut, untilAborted, withTimeout, type LinkedAbort } from './deadline.js';
export { backoffCeilingMs, backoffMs, MAX_BACKOFF_MS, type Backoff } from './retry.js';
export { retry, type RetryNotice, type RetryOptions, type RetryVerdict } from './retry.js';
export { RetryBudget } from './retry.js';
export {
  peekTokens,
  takeToken,
  takeTokens,
  type BucketState,
  type GrantedTokens,
  type Rate,
  type RateDecision,
} from './token-bucket.js';
export { Semaphore } from './concurrency.js';
export { KeyedMutex } from './concurrency.js';
export { SingleFlight } from './single-flight.js';
export {
  Breaker,
  BREAKER_GAUGE,
  CONSECUTIVE_RULE,
  ERROR_RATE_RULE,
  type BreakerJudgement,
  type BreakerOutcome,
  type BreakerRule,
  type BreakerState,
  type ProbeLease,
} from './breaker.js';
export { BreakerMap, type BreakerScope, type BreakerTransition, type TroubledBreaker } from './breaker-map.js';
export { LatencyMedian } from './latency-median.js';
