export { makeExecuteCall, type ExecuteCall } from './execute-call.js';
export type { Call } from './call.js';
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
  ToolCatalog,
  Tracer,
  type AuditRecord,
  type CacheAges,
  type CachedResult,
  type CacheLookup,
  type CacheScope,
  type CallSpan,
  type EnginePorts,
  type EngineSettings,
  type PolicyRequest,
  type PolicyResult,
} from './ports.js';
export { authorize, quarantineRefusal } from './admit.js';
export { actingUserId } from './call-identity.js';
export { toExecMessage } from './attempt.js';
export { toCancellation } from './deadline.js';
export {
  formatTool,
  TOOL_FORMATS,
  toolAnnotations,
  toolMetadata,
  toPublicTool,
  type ToolFormat,
} from './format-tool.js';
export { MAX_CACHED_CHARS, MemoryRateLimiter, MemoryResultCache, MemorySessionResults } from './memory-stores.js';
export { ToolRanker } from './rank-tools.js';
export { callBody, explainFailure, failed } from './result.js';
export { rateKey, toolRate } from './tool-plan.js';
