export { ExecutionGuard, IdempotentOnlyGuard, JournalGuard } from './execution-guard.js';
export {
  DEFAULT_RETENTION,
  GRACE_MS,
  Journal,
  mayFinish,
  resolveKey,
  unknownOutcome,
  type Acceptance,
  type JournalEntry,
  type JournalRecord,
  type JournalRequest,
  type JournalRetention,
  type KeyedCall,
  type KeyHolders,
  type KeyEntry,
} from './journal.js';
export {
  KeptResults,
  LargeResults,
  MIN_KEPT_BYTES,
  readLargeResult,
  type KeptResult,
  type OmittedResult,
} from './kept-results.js';
export { RedisJournal } from './redis-journal.js';
