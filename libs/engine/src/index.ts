export { makeExecuteCall, type ExecuteCall } from './execute-call.js';
export type { Call, Interceptor, Next, Observer, CallTrace } from './call.js';
export {
  Audit,
  BudgetPort,
  CallJournal,
  Executor,
  HistoryStore,
  Meter,
  PolicyPort,
  RateLimiter,
  ResultCache,
  ToolCatalog,
  Tracer,
  type Acceptance,
  type Answer,
  type AuditRecord,
  type CacheAges,
  type CachedResult,
  type CallSpan,
  type EnginePorts,
  type JournalEntryRequest,
  type KeyedCall,
  type PolicyRequest,
  type PolicyResult,
} from './ports.js';
export { DEFAULT_SETTINGS, type EngineSettings } from './settings.js';
export { callBody } from './call-body.js';
export { execMessageOf } from './exec-message.js';
export { authorize, callsTools, hasRequiredRole, mayUse } from './authorize.js';
export { narrowGlobs, toolAllowed } from './tool-globs.js';
export { MemoryHistoryStore } from './memory/memory-history-store.js';
export { MemoryRateLimiter } from './memory/memory-rate-limiter.js';
export { MemoryResultCache } from './memory/memory-result-cache.js';
export {
  answerBody,
  callRecord,
  MAX_BATCH,
  readBatch,
  runBatch,
  type BatchAnswer,
  type BatchItem,
  type ItemRequest,
} from './batch.js';
export { formatTool, TOOL_FORMATS, toolFormatOf, toolMetadata, type ToolFormat } from './format-tool.js';
export { ToolRanker, type RankedTool } from './rank-tools.js';
export { failed } from './outcome.js';
export { rateKeyOf, toolRateOf } from './tool-rate.js';
export { suggestionFor } from './graceful-error.js';
export { MAX_CACHED_CHARS } from './result-size.js';
