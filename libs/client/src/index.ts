export { CATALOGUE, docUrl, isErrorCode } from '@toolfleet/contracts';
export type {
  AcceptedBody,
  CallBody,
  CallProgress,
  CallRecord,
  CallState,
  Json,
  JsonObject,
} from '@toolfleet/contracts';
export type {
  ApiKey,
  Breaker,
  Budget,
  CallStages,
  CallStatus,
  CallSum,
  CatalogTool,
  CatalogToolDetail,
  Fleet,
  ListedTool,
  Me,
  NewKey,
  PendingApproval,
  Purge,
  PythonModuleLists,
  QuarantinedTool,
  FinishedCall,
  CallOutcome as FinishedCallStatus,
  FinishedCallDetail,
  RefusedTool,
  RouteAnswer,
  RouteKey,
  RouteRequest,
  ShownToolset,
  SlotStatus,
  SourceState,
  SourceStatus,
  ToolKind,
  ToolLimit,
  ToolsetDetail,
  ToolsetSpec,
  ToolsetSummary,
  ToolsetVersion,
  UsageRow,
} from '@toolfleet/contracts/resources';
export { toAttachments, toContentFile, toOutputFile, type ResultFile } from '@toolfleet/contracts/result-files';
export type { ErrorBody } from '@toolfleet/contracts/wire';
export { FINAL_STATUSES, type BatchItem, type BatchOptions, type CallOptions } from './call-types.js';
export { errorOfBody, ToolCallError, type ClientErrorCode } from './tool-call-error.js';
export {
  type RequestArguments,
  type ServerEvent,
  ToolfleetClient,
  type ToolfleetClientOptions,
  type ToolPage,
} from './toolfleet-client.js';
