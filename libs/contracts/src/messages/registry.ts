import {
  choice,
  flag,
  integer,
  list,
  maybe,
  object,
  orEmpty,
  record,
  text,
  type Schema,
  type Value,
} from '../json-schema.js';
import type { PendingApproval, RefusedTool } from '../resources/sources.js';
import type { RegisteredTool, ToolDefinition, ToolSource } from '../tool-definition.js';

export type {
  McpRegisterReply,
  OpenApiRegisterReply,
  OpenApiValidate,
  OpenApiValidateReply,
  PendingApproval,
  QuarantinedTool,
  RefusedTool,
  SourceState,
  SourceStatus,
} from '../resources/sources.js';

const SOURCE = record({
  kind: choice(['builtin', 'openapi', 'mcp', 'plugin']),
  name: text(undefined, { pattern: '^[A-Za-z0-9_.:-]{1,128}(@[A-Za-z0-9_.:-]{1,128})?$' }),
});
const WORD = text(undefined, { minLength: 1, maxLength: 200 });

/**
 * `registry.definition.get`: by name or alias, as seen by a tenant. With `pending_revision`: the definition of this revision that awaits an
 * approval; null if it is another.
 */
export const DEFINITION_GET = record({ name: WORD, tenant_id: maybe(WORD), pending_revision: maybe(WORD) });
export interface DefinitionGetReply {
  /** Null when it does not exist or belongs to another tenant. For a quarantined tool, `quarantine` is set. */
  tool: RegisteredTool | null;
  /** Catalog version of this reply. */
  version: number;
}

/**
 * `registry.definition.list`: sorted by name in byte order. `category` is a category or tag, `cursor` the last name of the previous
 * page. With `features`: prompts and resources of MCP servers instead of tools. Without `tenant_id`, and empty: only those that are shared
 * by all tenants. `since` is the version of a list that the sender has: of what did not change for the tenant since then, the names are sent.
 */
const DEFINITION_QUERY = record({
  tenant_id: maybe(WORD),
  category: maybe(WORD),
  features: maybe(flag()),
  cursor: maybe(WORD),
  limit: maybe(integer(undefined, { minimum: 1 })),
  since: maybe(integer(undefined, { minimum: 0 })),
});
export const DEFINITION_LIST = orEmpty(DEFINITION_QUERY);
export type DefinitionList = Value<typeof DEFINITION_QUERY>;
export interface DefinitionListReply {
  tools: RegisteredTool[];
  /** Those of the page that did not change: name and revision, which tells a sender whether its list is of this store. */
  unchanged?: [name: string, revision: string][] | undefined;
  /** Increases with every change of the catalog. */
  version: number;
  next_cursor?: string;
}

/**
 * `registry.definition.register.<toolset>`: announces all definitions of one source. With `replace`, other tools of the source
 * are removed. Tools become unavailable when the announcement is not repeated within `ttl_ms`. `options` are for pinning: `trusted`,
 * `pin`, `new_tools`, `named` (names at the source that its entry allows one by one), `document` (SHA-256 of the document that the
 * definitions come from).
 */
export const DEFINITION_REGISTER = record({
  source: SOURCE,
  // Each definition is checked when it is registered, so that an invalid one refuses only itself.
  definitions: { type: 'array', maxItems: 50_000 } as Schema<ToolDefinition[]>,
  replace: flag(),
  ttl_ms: maybe(integer(undefined, { minimum: 500, maximum: 86_400_000 })),
  options: maybe(object()),
});
export type DefinitionRegister = Value<typeof DEFINITION_REGISTER>;
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
export const DEFINITION_RETIRE = record({
  source: SOURCE,
  names: maybe(list(WORD, undefined, { maxItems: 50_000 })),
});

/** `registry.definition.changed`: published after every change. */
export interface DefinitionChanged {
  version: number;
  source: ToolSource;
  added: string[];
  changed: string[];
  removed: string[];
}
