export { isJsonObject, type Json, type JsonObject } from './json.js';
export { microUsdOf, syntheticTokens, usdOf, type EpochMs, type MicroUsd, type Milliseconds } from './units.js';
export { ADMIN_ROLE, type Origin, type Principal } from './principal.js';
export {
  CONTEXT_KEYS,
  DEFAULT_MEMORY_LIMIT_MB,
  DEFAULT_RATE_LIMIT,
  SHOWN_TIMEOUT_SECONDS,
  TOOLSETS,
  TOOL_NAME_PATTERN,
  type Binding,
  type BuiltinBinding,
  type ContextKey,
  type DangerousArgument,
  type McpBinding,
  type OpenApiBinding,
  type PythonBinding,
  type RegisteredTool,
  type RetryPolicy,
  type ToolDefinition,
  type ToolSource,
  type Toolset,
} from './tool-definition.js';
export type {
  AcceptedBody,
  CallBody,
  CallContext,
  CallMessage,
  CallProgress,
  CallRecord,
  CallRequest,
  CallResult,
  CallState,
  CallTiming,
  ContentBlock,
  Door,
  ExecutionFailure,
  Provenance,
  Usage,
} from './call.js';
export { CATALOGUE, isErrorCode, type ErrorClass, type ErrorCode, type ErrorEntry } from './errors/catalogue.js';
export { isToolError, ToolError, toToolError, type ToolErrorOptions } from './errors/tool-error.js';
export { ERROR_CODE_HEADER, ERROR_HEADER, errorBody, errorFromBody, type ErrorBody } from './errors/wire.js';
export {
  builtinSubject,
  HEADERS,
  QUEUE_PREFIX,
  QUEUES,
  resultSubject,
  SIZES,
  SUBJECTS,
  tenantSubject,
} from './subjects.js';
export type {
  CancelMessage,
  DiscoverMessage,
  ExecContext,
  ExecJob,
  ExecMessage,
  ExecReply,
  JobReply,
  PythonJobPolicy,
  Strictness,
} from './messages/execution.js';
export type {
  DefinitionChanged,
  DefinitionGet,
  DefinitionGetReply,
  DefinitionList,
  DefinitionListReply,
  DefinitionRegister,
  DefinitionRegisterReply,
  DefinitionRetire,
} from './messages/registry.js';
export type {
  BudgetLimits,
  BudgetLimitsReply,
  BudgetRelease,
  BudgetReleaseReply,
  BudgetReserve,
  BudgetReserveReply,
  BudgetScopes,
  BudgetSettle,
  BudgetSettleReply,
  BudgetThreshold,
  BudgetUsage,
  BudgetUsageReply,
  LimitState,
  ReserveAnswer,
  ReserveAsk,
  SettleAsk,
  UsageRow,
  UsageSum,
} from './messages/budget.js';
