export { ExecutionGuard, JournalGuard, IdempotentOnlyGuard, type GatedWork } from './effect-gate.js';
export {
  DEFAULT_RETENTION,
  Journal,
  MAX_IDEMPOTENCY_KEY_CHARS,
  type Acceptance,
  type JournalRequest,
  type JournalRetention,
  type KeyedCall,
} from './journal.js';
export { KeptResults, MIN_KEPT_BYTES, type KeptResult } from './kept-results.js';
export { LargeResults, omitPayload, readLargeResult, type OmittedResult } from './large-results.js';
export { MemoryJournal } from './memory-journal.js';
export { RedisJournal, type JournalRedis } from './redis-journal.js';
export { GRACE_MS, isFinal, type JournalRecord } from './states.js';
export { unknownOutcome } from './unknown-outcome.js';
