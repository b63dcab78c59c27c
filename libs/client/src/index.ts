export type { BatchItem, CallOptions, CallStatus, ListedTool, UsageRow } from './call-types.js';
export { FINAL_STATUSES } from './call-types.js';
export { errorOfBody, ToolCallError, type ClientErrorCode } from './tool-call-error.js';
export { ToolfleetClient, type ToolfleetClientOptions, type ToolPage } from './toolfleet-client.js';
