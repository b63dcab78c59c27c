export type {
  AcceptedBody,
  CallBody,
  CallProgress,
  CallRecord,
  CallState,
  Json,
  JsonObject,
} from '@toolfleet/contracts';
export type { CallStages, SlotStatus } from '@toolfleet/contracts/fleet';
export type {
  PendingApproval,
  QuarantinedTool,
  RefusedTool,
  SourceState,
  SourceStatus,
} from '@toolfleet/contracts/registry';
export type { ToolsetDetail, ToolsetSpec, ToolsetSummary, ToolsetVersion } from '@toolfleet/contracts/toolset';
export { toAttachments, toContentFile, toOutputFile, type ResultFile } from '@toolfleet/contracts/result-files';
export type { ErrorBody } from '@toolfleet/contracts/wire';
export {
  FINAL_STATUSES,
  type BatchItem,
  type BatchOptions,
  type CallOptions,
  type CallStatus,
  type ListedTool,
} from './call-types.js';
export type {
  ApiKey,
  Breaker,
  Budget,
  CatalogTool,
  CatalogToolDetail,
  Fleet,
  Me,
  NewKey,
  RecentCall,
  RecentCallDetail,
  RecentCallStatus,
  ShownToolset,
  ToolKind,
  ToolLimit,
  UsageRow,
} from './management-types.js';
export { errorOfBody, ToolCallError, type ClientErrorCode } from './tool-call-error.js';
export { ToolfleetClient, type ToolfleetClientOptions, type ToolPage } from './toolfleet-client.js';
