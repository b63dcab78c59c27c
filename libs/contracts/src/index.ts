export { isJsonObject, type Json, type JsonObject } from './json.js';
export { toMicroUsd, syntheticTokens, toUsd, type EpochMs, type MicroUsd, type Milliseconds } from './units.js';
export { CATALOGUE, isErrorCode, type ErrorClass, type ErrorCode, type ErrorEntry } from './errors/catalogue.js';
export { isDevelopment } from './environment.js';
export { isToolError, ToolError, toToolError } from './errors/tool-error.js';
export {
  ADMIN_ROLE,
  isReservedTenant,
  LOCAL_TENANT,
  MCP_MODES,
  OPERATOR_ROLE,
  OPERATOR_TENANT,
  type McpMode,
  type Origin,
  type Principal,
  type SpendingScopes,
} from './principal.js';
export {
  blankResult,
  costNothing,
  type AcceptedBody,
  type Approval,
  type CallBody,
  type CallContext,
  type ExchangeSession,
  type CallMessage,
  type CallProgress,
  type CallRecord,
  type CallRequest,
  type CallResult,
  type CallState,
  type ContentBlock,
  type ExecutionFailure,
  type ResultReading,
  type Usage,
} from './call.js';
