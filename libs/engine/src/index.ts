export { makeExecuteCall, type ExecuteCall } from './execute-call.js';
export { chargedMicroUsd, type ActiveCall, type Call } from './call.js';
export { LeasedBudget } from './leased-budget.js';
export {
  Audit,
  BudgetPort,
  DEFAULT_SETTINGS,
  Executor,
  Meter,
  PolicyPort,
  RateLimiter,
  ResultCache,
  ResultSelector,
  ResultShelf,
  ToolCatalog,
  Tracer,
  type AuditRecord,
  type CacheAges,
  type CachedResult,
  type CacheLookup,
  type CacheScope,
  type EnginePorts,
  type EngineSettings,
  type PolicyRequest,
  type PolicyResult,
  type Selected,
} from './ports.js';
export { argumentsInvalid, authorize, quarantineRefusal } from './admit.js';
export { actingUserId } from './call-identity.js';
export { toExecMessage } from './attempt.js';
export { toCancellation } from './deadline.js';
export {
  formatTool,
  HANDLE,
  SELECTION,
  TOOL_FORMATS,
  toolAnnotations,
  toolMetadata,
  toPublicTool,
  type ToolFormat,
} from './format-tool.js';
export { MAX_CACHED_CHARS, MemoryRateLimiter, MemoryResultCache, MemorySessionResults } from './memory-stores.js';
export { ToolRanker, type Evidence, type RankedTool } from './search/rank-tools.js';
export { taskWords } from './search/tool-words.js';
export { callBody, explainFailure, failed } from './result.js';
export { parseSelect, showValue } from './interceptors/select.js';
export { oversizeDocument, RESULT_URI, toDocument, withHandle, type KeptHandle } from './result-handle.js';
export { callsTools, rateKey, toolRate } from './tool-plan.js';
