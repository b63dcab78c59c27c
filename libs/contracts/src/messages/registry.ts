import type { JsonObject } from '../json.js';
import type { PendingApproval, QuarantinedTool, RefusedTool, SourceStatus } from '../resources/sources.js';
import type { RegisteredTool, ToolDefinition, ToolSource } from '../tool-definition.js';
import type { ToolSettings } from '../tool-settings.js';

export type {
  McpRegisterReply,
  OpenApiRegisterReply,
  OpenApiValidateReply,
  PendingApproval,
  QuarantinedTool,
  RefusedTool,
  SourceState,
  SourceStatus,
} from '../resources/sources.js';

/** `registry.definition.get`: by name or alias, as seen by a tenant. */
export interface DefinitionGet {
  name: string;
  tenant_id?: string;
}
export interface DefinitionGetReply {
  /** Null when it does not exist or belongs to another tenant. For a quarantined tool, `quarantine` is set. */
  tool: RegisteredTool | null;
  /** Catalog version of this reply. */
  version: number;
}

/** `registry.definition.list`: sorted by name in byte order. `cursor` is the last name of the previous page. */
export interface DefinitionList {
  /** Absent: only tools that are shared by all tenants. */
  tenant_id?: string;
  /** Category or tag. */
  category?: string;
  cursor?: string;
  limit?: number;
}
export interface DefinitionListReply {
  tools: RegisteredTool[];
  /** Increases with every change of the catalog. */
  version: number;
  next_cursor?: string;
}

/**
 * `registry.definition.register.<toolset>`: announces all definitions of one source. With `replace`, other tools of the source
 * are removed. Tools become unavailable when the announcement is not repeated within `ttl_ms`.
 */
export interface DefinitionRegister {
  source: ToolSource;
  definitions: ToolDefinition[];
  replace: boolean;
  ttl_ms?: number;
  /** For pinning: `trusted`, `pin`, `document` (SHA-256 of the document that the definitions come from). */
  options?: JsonObject;
}
export interface DefinitionRegisterReply {
  registered: string[];
  added: string[];
  changed: string[];
  removed: string[];
  refused: RefusedTool[];
  quarantined: PendingApproval[];
}

/** `registry.definition.announce` (no reply): requests all executors to announce their tools again. */
export interface DefinitionAnnounce {
  /** Catalog version when the registry started. */
  version: number;
}

/** `registry.definition.retire`: removes the named tools of a source, or all of them without `names`. */
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

/** `registry.source.list`: all sources, those of one tenant, or one source with its details. */
export interface SourceListRequest {
  /** Only sources of this tenant; null: only those shared with all tenants; absent: all. */
  tenant?: string | null;
  /** Only this source, with `tools`, `refused` and `notes`. */
  source?: ToolSource;
}
export interface SourceListReply {
  sources: SourceStatus[];
}

/** `registry.source.refresh`: reads a document, or asks an MCP server for its tools, now. The reply shows what was found. */
export interface SourceRefresh {
  source: ToolSource;
}
export type SourceRefreshReply = SourceStatus;

/** `registry.quarantine.list`: remote tools that changed after their approval or were held when first seen. */
export interface QuarantineList {
  source?: ToolSource;
}
export interface QuarantineListReply {
  tools: QuarantinedTool[];
}

/** `registry.quarantine.approve`: pins the pending definition. Refused if the definition has changed since `pending_revision`. */
export interface QuarantineApprove {
  name: string;
  pending_revision: string;
  /** User, for the audit log. */
  approved_by: string;
}
export interface QuarantineApproveReply {
  name: string;
  revision: string;
}

/**
 * `registry.quarantine.reject`: rejects the pending definition. The tool stays in quarantine, because its server no longer
 * serves the approved definition, until the server returns to that definition or another one is approved.
 */
export interface QuarantineReject {
  name: string;
  pending_revision: string;
  /** User, for the audit log. */
  rejected_by: string;
}
export interface QuarantineRejectReply {
  name: string;
}

/** Tool settings for a whole source, and by name pattern. A pattern is a tool name in which `*` stands for any characters. */
interface SourceSettings extends ToolSettings {
  overrides?: { [pattern: string]: ToolSettings };
}

/** `registry.openapi.register` and one entry of `openapi_tools` in the configuration file. */
export interface OpenApiRegister extends SourceSettings {
  /** Collection name. */
  name: string;
  enabled?: boolean;
  spec_url?: string;
  spec_inline?: string;
  /** Local file; only in the configuration file. */
  spec_path?: string;
  auth_type?: 'none' | 'api_key' | 'bearer' | 'basic' | 'oauth2';
  auth_config?: JsonObject;
  category?: string;
  base_cost_per_use?: number;
  operations?: string[];
  tags?: string[];
  base_url?: string;
  max_response_bytes?: number;
  name_prefix?: string;
  vendor_adapter?: string;
  extra_headers?: JsonObject;
  /** Seconds between two reads of the document; 0: never again. */
  refresh_seconds?: number;
  /** Changed operations of a document from a URL: held for approval (`refuse`, default), logged (`warn`) or accepted (`off`). */
  pin?: 'refuse' | 'warn' | 'off';
  /** The only tenant that sees the tools. Set by the gateway, never by the caller. */
  tenant?: string;
}
/** `registry.openapi.validate`: reads a document without registering it. */
export interface OpenApiValidate {
  spec_url?: string;
  spec_inline?: string;
  base_url?: string;
  operations?: string[];
  tags?: string[];
}
/** `registry.mcp.register`: an MCP server, or with `func_name` a plain `{"function","args"}` endpoint as one tool. */
export interface McpRegister extends SourceSettings {
  name: string;
  url: string;
  func_name?: string;
  transport?: 'auto' | 'streamable-http' | 'function-args';
  description?: string;
  category?: string;
  headers?: JsonObject;
  /** Parameters of a `func_name` endpoint, as in the configuration file. */
  parameters?: JsonObject[];
  cost_per_use?: number;
  trusted?: boolean;
  pin?: 'refuse' | 'warn' | 'off';
  prefix?: string;
  tools?: string[];
  oauth?: JsonObject;
  /** The only tenant that sees the tools. Set by the gateway, never by the caller. */
  tenant?: string;
}
