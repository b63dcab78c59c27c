import type { JsonObject } from '../json.js';
import type { RegisteredTool, ToolDefinition, ToolSource } from '../tool-definition.js';

/** `registry.definition.get`: by name or alias, as seen by a tenant. */
export interface DefinitionGet {
  name: string;
  tenant_id?: string;
}
export interface DefinitionGetReply {
  tool: RegisteredTool | null;
}

/** `registry.definition.list`: by name, byte order. Pages by `cursor` = last name of the page before. */
export interface DefinitionList {
  tenant_id?: string;
  /** Matches category or tag (K!25). */
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
 * `registry.definition.register`: announces all definitions of one source; with `replace`, tools of the source that are
 * not named are retired. `ttl_ms`: the announcement is repeated sooner than that, else the tools become unavailable.
 */
export interface DefinitionRegister {
  source: ToolSource;
  definitions: ToolDefinition[];
  replace: boolean;
  ttl_ms?: number;
  /** Source options the registry needs for pinning: `trusted`, `pin`. */
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

/** `registry.definition.retire`: removes tools of one source. Without names, all of them. */
export interface DefinitionRetire {
  source: ToolSource;
  names?: string[];
}

/** `registry.definition.changed`: published after every change. */
export interface DefinitionChanged {
  version: number;
  source: ToolSource;
  added: string[];
  changed: string[];
  removed: string[];
}
