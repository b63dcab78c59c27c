import type { Json, JsonObject } from '../json.js';
import type { RegisteredTool, ToolDefinition, ToolSource } from '../tool-definition.js';

/** `registry.definition.get`: by name or alias, as seen by a tenant. */
export interface DefinitionGet {
  name: string;
  tenant_id?: string;
}
export interface DefinitionGetReply {
  /** Null when there is none, or it is another tenant's. A quarantined tool is answered with `quarantine` set. */
  tool: RegisteredTool | null;
  /** Catalog version at the time of the answer. */
  version: number;
}

/** `registry.definition.list`: by name, byte order. Pages by `cursor` = last name of the page before. */
export interface DefinitionList {
  /** Absent: only tools that belong to no tenant. */
  tenant_id?: string;
  /** Matches category or tag. */
  category?: string;
  cursor?: string;
  limit?: number;
}
export interface DefinitionListReply {
  tools: RegisteredTool[];
  /** Grows with every change; equal numbers mean an equal catalog. */
  version: number;
  next_cursor?: string;
}

/**
 * `registry.definition.register.<toolset>`: announces all definitions of one source; with `replace`, tools of the source that are
 * not named are retired. `ttl_ms`: the announcement is repeated sooner than that, else the tools become unavailable.
 */
export interface DefinitionRegister {
  source: ToolSource;
  definitions: ToolDefinition[];
  replace: boolean;
  ttl_ms?: number;
  /** Options the registry needs for pinning: `trusted`, `pin`, `document` (SHA-256 of the text the definitions come from). */
  options?: JsonObject;
}
export interface DefinitionRegisterReply {
  registered: string[];
  added: string[];
  changed: string[];
  removed: string[];
  refused: { name: string; code: string; message: string }[];
  quarantined: string[];
}

/** Body of `registry.definition.announce` (no reply): executors announce what they serve again. */
export interface DefinitionAnnounce {
  /** Catalog version when the registry started. */
  version: number;
}

/** `registry.definition.retire`: removes tools of one source. Without names, all of them. */
export interface DefinitionRetire {
  source: ToolSource;
  names?: string[];
}

export interface DefinitionRetireReply {
  removed: string[];
}

/** `registry.definition.changed`: published after every change. */
export interface DefinitionChanged {
  version: number;
  source: ToolSource;
  added: string[];
  changed: string[];
  removed: string[];
}

/** `registry.quarantine.list`: remote tools that changed after their approval, or were held at their first sight. */
export interface QuarantineList {
  source?: ToolSource;
}
export interface QuarantinedTool {
  name: string;
  source: ToolSource;
  reason: string;
  since_at: number;
  /** Revision of the definition that waits; approve exactly this one. */
  pending_revision: string;
  /** Null when the tool was never approved. */
  approved_revision: string | null;
  /** Set: an administrator looked at this revision and keeps it out. */
  rejected?: { at: number; by: string };
  /** What would change: pinned fields, before and after. */
  diff: { field: string; before: Json; after: Json }[];
  /** The differences of all tools together are too long for one answer: this one is shown once others are decided. */
  diff_omitted?: true;
}
export interface QuarantineListReply {
  tools: QuarantinedTool[];
}

/** `registry.quarantine.approve`: pins the pending definition of a tool. Refused when it changed since it was shown. */
export interface QuarantineApprove {
  name: string;
  pending_revision: string;
  /** Who approves, for the audit log. */
  approved_by: string;
}
export interface QuarantineApproveReply {
  name: string;
  revision: string;
}

/**
 * `registry.quarantine.reject`: keeps the pending definition of a tool out. The tool stays in quarantine, because its server
 * serves something else than what was approved; it comes back when the server returns to that, or by an approval.
 */
export interface QuarantineReject {
  name: string;
  pending_revision: string;
  /** Who rejects, for the audit log. */
  rejected_by: string;
}
export interface QuarantineRejectReply {
  name: string;
}

/** `registry.openapi.register` and one entry of `openapi_tools` in the configuration file. */
export interface OpenApiRegister {
  /** Collection name. */
  name: string;
  enabled?: boolean;
  spec_url?: string;
  spec_inline?: string;
  /** Local file, configuration only. */
  spec_path?: string;
  auth_type?: 'none' | 'api_key' | 'bearer' | 'basic' | 'oauth2';
  auth_config?: JsonObject;
  category?: string;
  base_cost_per_use?: number;
  operations?: string[];
  tags?: string[];
  base_url?: string;
  rate_limit?: number;
  timeout_seconds?: number;
  max_response_bytes?: number;
  name_prefix?: string;
  vendor_adapter?: string;
  extra_headers?: JsonObject;
  /** Seconds between two looks at the document; 0 = never. */
  refresh_seconds?: number;
  /** What becomes of changed operations of a document read from a URL: held for approval (default), logged, or taken. */
  pin?: 'refuse' | 'warn' | 'off';
  /** Tenant that alone sees the tools. Set by the gateway, never by the caller. */
  tenant?: string;
}
/** Problems of the document are a value (`success: false`), as existing callers expect; refusals are errors. */
export interface OpenApiRegisterReply {
  success: boolean;
  collection_name: string;
  operations_registered: string[];
  message: string;
  rate_limit: number;
  timeout_seconds: number;
  max_response_bytes: number;
  /** Operations and names that could not be registered, with reasons. */
  refused: { name: string; code: string; message: string }[];
  warnings: string[];
}

/** `registry.openapi.validate`: reads a document and registers nothing. */
export interface OpenApiValidate {
  spec_url?: string;
  spec_inline?: string;
  base_url?: string;
  operations?: string[];
  tags?: string[];
}
export interface OpenApiValidateReply {
  valid: boolean;
  operations_count: number;
  operations: { operation_id: string; method: string; path: string; description: string }[];
  base_url: string;
  errors: string[];
  warnings?: string[];
}

/** `registry.mcp.register`: a plain `{"function","args"}` endpoint as one tool, or with `transport` a whole MCP server. */
export interface McpRegister {
  name: string;
  url: string;
  func_name?: string;
  transport?: 'auto' | 'streamable-http' | 'function-args';
  description?: string;
  category?: string;
  headers?: JsonObject;
  /** Parameter list of the configuration file, for `func_name` entries. */
  parameters?: JsonObject[];
  cost_per_use?: number;
  rate_limit?: number;
  timeout_seconds?: number;
  trusted?: boolean;
  pin?: 'refuse' | 'warn' | 'off';
  prefix?: string;
  tools?: string[];
  oauth?: JsonObject;
  /** Tenant that alone sees the tools. Set by the gateway, never by the caller. */
  tenant?: string;
}
export interface McpRegisterReply {
  success: boolean;
  tool_name: string;
  message: string;
  /** Every name registered; one for `func_name` entries. */
  registered: string[];
}
