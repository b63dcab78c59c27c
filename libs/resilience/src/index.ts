export { AbortSource, atTurnEnd, Clock, onAbort, RecentMap, SystemClock, type CancelTimer } from '@toolfleet/base';
export { Deadline } from './deadline.js';
export { TimedOut, withTimeout } from './deadline.js';
export { type Backoff } from './retry.js';
export { retry, type RetryVerdict } from './retry.js';
export { RetryBudget } from './retry.js';
export { peekTokens, takeToken, takeTokens, type GrantedTokens, type Rate, type RateDecision } from './token-bucket.js';
export {
  checkLimit,
  reachedShares,
  noCounters,
  periodName,
  periodStart,
  type Amount,
  type Counters,
  type Refusal,
  type ScopeLimit,
} from './spending-limit.js';
export { CostlyTurns } from './costly-turns.js';
export { FairQueue } from './fair-queue.js';
export { FairSlots } from './fair-slots.js';
export { Semaphore } from './concurrency.js';
export { KeyedMutex } from './concurrency.js';
export { InFlight, InFlightMap } from './in-flight.js';
export { HOURLY, Rounds } from './rounds.js';
export { SingleFlight } from './single-flight.js';
export {
  BREAKER_GAUGE,
  type BreakerJudgement,
  type BreakerRule,
  type BreakerState,
  type ProbeLease,
} from './breaker.js';
export { BreakerMap, type BreakerTransition } from './breaker-map.js';
export { LatencyMedian } from './latency-median.js';
