export { callSteps, makeExecuteCall } from './execute-call.js';
export { chargedMicroUsd, type ActiveCall, type Call, type ExecuteCall } from './call.js';
export {
  ApprovalPort,
  Audit,
  BudgetPort,
  Executor,
  Meter,
  PolicyPort,
  RateLimiter,
  ResultCache,
  CostlyArguments,
  ResultSelector,
  type ApprovalRequest,
  type ArgumentJob,
  ResultShelf,
  ToolCatalog,
  Tracer,
  UserGrants,
  type AuditRecord,
  type CacheAges,
  type CachedResult,
  type CacheLookup,
  type CacheScope,
  type EnginePorts,
  type GrantOwner,
  type MaybePromise,
  type PolicyRequest,
  type ProgramQuestion,
  type PolicyResult,
  type ResolvedTool,
  type Selected,
} from './ports.js';
export { ANSWER_MS, DEFAULT_SETTINGS, type EngineSettings } from './settings.js';
export { argumentsInvalid, authorize, quarantineRefusal } from './admit.js';
export { newCallId } from './call-id.js';
export { actingUserId } from './call-identity.js';
export { toExecMessage } from './attempt.js';
export { MAX_CACHED_CHARS, MemoryRateLimiter, MemoryResultCache, MemorySessionResults } from './memory-stores.js';
export { callBody, explainFailure, failed, shownMetadata } from './result.js';
export { parseSelect, showValue } from './steps/select.js';
export { opensPages } from './steps/user-grant.js';
export {
  oversizeDocument,
  RESULT_URI,
  toDocument,
  withDisclaimer,
  withHandle,
  type KeptHandle,
} from './result-handle.js';
export {
  argumentReader,
  hasEffects,
  isSafeMethod,
  rateKey,
  reservedMicroUsd,
  toolRate,
  withLimits,
} from './tool-plan.js';
export { recordedTool, redactCall, redactedError } from './redact-call.js';
export type {
  GoOn,
  InterceptedAnswer,
  InterceptedCall,
  Interception,
  Interceptor,
  InterceptorVerdict,
} from './interceptor.js';
export { toCallStatus } from './call-status.js';
