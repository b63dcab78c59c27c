export { Clock, SystemClock, type CancelTimer } from './clock.js';
export { Deadline } from './deadline.js';
export { linkAbort, TimedOut, untilAborted, withTimeout, type LinkedAbort } from './timeout.js';
export { backoffCeilingMs, backoffMs, MAX_BACKOFF_MS, type Backoff } from './backoff.js';
export { retry, type RetryNotice, type RetryOptions, type RetryVerdict } from './retry.js';
export { RetryBudget } from './retry-budget.js';
export {
  peekTokens,
  takeToken,
  takeTokens,
  type BucketState,
  type GrantedTokens,
  type Rate,
  type RateDecision,
} from './token-bucket.js';
export { Semaphore } from './semaphore.js';
export { Turns } from './turns.js';
export { SingleFlight } from './coalesce.js';
export {
  Breaker,
  CONSECUTIVE_RULE,
  ERROR_RATE_RULE,
  type BreakerJudgement,
  type BreakerOutcome,
  type BreakerRule,
  type BreakerState,
  type ProbeLease,
} from './breaker.js';
export { BreakerMap, type BreakerScope, type BreakerTransition, type TroubledBreaker } from './breaker-map.js';
export { LatencyMedian } from './typical-time.js';
