export { isJsonObject, jsonObject, type Json, type JsonObject } from '@toolfleet/base/json';
export { instantOrNull, parseInstant, toInstant } from './instants.js';
export { toMicroUsd, syntheticTokens, toUsd, type EpochMs, type MicroUsd, type Milliseconds } from './units.js';
export {
  CATALOGUE,
  docUrl,
  serveDocsAt,
  isErrorCode,
  type ErrorClass,
  type ErrorCode,
  type ErrorEntry,
} from './errors/catalogue.js';
export { isDevelopment } from './environment.js';
export { isServerFault, isToolError, ToolError, toToolError, type RequiredInput } from './errors/tool-error.js';
export { ADMIN_ROLE, AUDITOR_ROLE, OPERATOR_ROLE } from './roles.js';
export {
  isReservedTenant,
  LOCAL_TENANT,
  MCP_MODES,
  natsUserId,
  OPERATOR_TENANT,
  actsInPerson,
  isReservedUser,
  isServiceAccount,
  personOf,
  serviceUserId,
  PRESENTED_TOKEN,
  TENANT_ID_PATTERN,
  toMaker,
  type McpMode,
  type Origin,
  type Person,
  type Principal,
  type SpendingScopes,
} from './principal.js';
export {
  costNothing,
  ENGINE_METADATA,
  failedWith,
  isOwnOutcome,
  disclaimerOf,
  payloadOmitted,
  succeeded,
  type CallContext,
  type CallCaller,
  type CallInput,
  type CallLimits,
  type CallReuse,
  type CallTarget,
  type PersonInput,
  type ServerTask,
  type ExchangeSession,
  type CallProgress,
  type CallMode,
  type CallRequest,
  type EntryPoint,
  type EffectGate,
  type CallResult,
  type ContentBlock,
  type ExecutionFailure,
  type Failed,
  type ResultReading,
  type Substituted,
  type Succeeded,
  type Usage,
} from './call.js';
export {
  APPROVAL_STATES,
  APPROVAL_TRANSITIONS,
  approvalAfter,
  isSameQuestion,
  joinRules,
  mayAskCaller,
  MAX_FORM_CHARS,
  type Approval,
  type ApprovalEvent,
  type ApprovalRule,
  type ApprovalState,
  type GrantOffer,
  type RequiredApproval,
  type ShownEffect,
} from './approval.js';
export type {
  KeptAnswer,
  PlannedEffect,
  ProgramPlan,
  ProgramState,
  QuestionPath,
  RefusedCall,
  WaitingCall,
} from './program-state.js';
export type { CallMessage } from './call-fields.js';
export type { AcceptedBody, CallBody, CallEvent, CallRecord, CallState } from './resources/calls.js';
