import type { Json, JsonObject } from './json.js';
import type { PendingApproval } from './messages/registry.js';

/** Which tools a selection names. A tool is selected when it matches any entry of any list. */
export interface ToolSelection {
  /** Names, in which `*` stands for any characters. */
  tools?: string[];
  tags?: string[];
  categories?: string[];
  /** `kind/name` of sources, such as `mcp/crm`, in which `*` stands for any characters; without the tenant. */
  sources?: string[];
}

/** How a toolset shows one tool. */
export interface ToolOverride {
  /** Name in the toolset. The original name is unknown there. */
  name?: string;
  description?: string;
  /** Arguments with a fixed value: not in the shown schema, and refused from callers. */
  preset?: JsonObject;
  /** Values of arguments that the caller omits, in place of the defaults of the schema. */
  defaults?: JsonObject;
  /** Optional arguments that are not in the shown schema. */
  hide?: string[];
}

/** A selection of tools as an administrator writes it (docs/toolsets.md). */
export interface ToolsetSpec {
  description?: string;
  /** Sent to MCP clients when they connect. */
  instructions?: string;
  /** Absent: every tool. */
  include?: ToolSelection;
  exclude?: ToolSelection;
  /** Only tools whose annotations declare `readOnlyHint`. */
  read_only?: boolean;
  /** Shown names that are listed first, in this order; all others follow by name. */
  order?: string[];
  /** By original name. */
  overrides?: { [tool: string]: ToolOverride };
}

const GLOBS = { type: 'array', maxItems: 1_000, items: { type: 'string', pattern: '^[A-Za-z0-9_.*:/-]{1,128}$' } };
const TEXTS = { type: 'array', maxItems: 1_000, items: { type: 'string', minLength: 1, maxLength: 128 } };
const NAME = { type: 'string', pattern: '^[A-Za-z0-9_-]{1,64}$' };
const SELECTION = {
  type: 'object',
  properties: { tools: GLOBS, tags: TEXTS, categories: TEXTS, sources: GLOBS },
  additionalProperties: false,
};

/** JSON Schema of `ToolsetSpec`: the body of `PUT /api/v1/toolsets/{name}` and an entry of `toolsets` in the configuration file. */
export const TOOLSET_SCHEMA = {
  type: 'object',
  properties: {
    description: { type: 'string', maxLength: 2_000 },
    instructions: { type: 'string', maxLength: 8_000 },
    include: SELECTION,
    exclude: SELECTION,
    read_only: { type: 'boolean' },
    order: { type: 'array', maxItems: 1_000, items: NAME },
    overrides: {
      type: 'object',
      maxProperties: 500,
      propertyNames: NAME,
      additionalProperties: {
        type: 'object',
        properties: {
          name: NAME,
          description: { type: 'string', minLength: 1, maxLength: 8_000 },
          preset: { type: 'object' },
          defaults: { type: 'object' },
          hide: TEXTS,
        },
        additionalProperties: false,
      },
    },
  },
  additionalProperties: false,
} as const satisfies Json;

/** Valid names of toolsets. */
export const TOOLSET_NAME_PATTERN = /^[A-Za-z0-9_-]{1,64}$/;

/** A toolset as a request names it: `support`, or `support@3` for one version. */
export interface ToolsetRef {
  name: string;
  /** Absent: the latest. */
  version?: number;
  /** Globs of shown names, for a tool that calls some of them on behalf of a caller; absent: all. */
  tools?: readonly string[];
  /** How the credential is bound to it; absent: the request chose it. `version` is known once the request is read, in both cases. */
  bound?: 'to_latest' | 'to_version';
}

/** Parses `name` or `name@version`; undefined when the text is neither. */
export function parseToolsetRef(text: string): ToolsetRef | undefined {
  const [, name, version] = /^([A-Za-z0-9_-]{1,64})(?:@([1-9]\d{0,8}))?$/.exec(text) ?? [];
  if (name === undefined) return undefined;
  return version === undefined ? { name } : { name, version: Number(version) };
}

/** How a toolset shows the tool of one call. The call itself names the original tool. */
export interface ToolView {
  toolset: { name: string; version: number };
  /** Name of the tool in the toolset. */
  shownName: string;
  /** What the toolset changes about the arguments; absent: nothing. */
  arguments?: ShownArguments;
}

/** Arguments of a call that the toolset decides. */
export interface ShownArguments {
  preset: JsonObject;
  defaults: JsonObject;
  /** Names that are unknown to the caller, those of `preset` included. */
  hidden: readonly string[];
}

/** `registry.toolset.get`: the toolset of this name that a tenant uses: its own, else the one that is shared with all tenants. */
export interface ToolsetGet {
  tenant_id: string;
  name: string;
  /** Absent: the latest. */
  version?: number;
}
export interface ToolsetGetReply {
  /** Null when there is none, or not in this version. */
  toolset: ServedToolset | null;
}

/** One version of a toolset, with the state of its overrides. */
export interface ServedToolset {
  name: string;
  /** The only tenant that uses it; null: shared with all tenants. */
  tenant: string | null;
  version: number;
  spec: ToolsetSpec;
  /** Revisions of definitions for which overrides are in effect, by original name. At any other revision the tool is hidden. */
  approved: Record<string, string>;
  /** Overrides that await an approval, by original name. */
  quarantined: PendingApproval[];
}

/** Where a toolset is declared: the configuration file, or over the API. */
export type ToolsetOrigin = 'config' | 'api';

/** One version in the history of a toolset. */
export interface ToolsetVersion {
  version: number;
  /** ISO 8601. */
  created_at: string;
  created_by: string;
  origin: ToolsetOrigin;
  /** The version that this one restored. */
  restores?: number;
}

/** `registry.toolset.list`: the latest version of every toolset, or of those of one tenant. */
export interface ToolsetList {
  /** Only toolsets of this tenant; null: only shared ones; absent: all. */
  tenant?: string | null;
}
/** A toolset as administrators see it. */
export interface ToolsetSummary extends ToolsetVersion {
  /** `name`, or `name@tenant`: the path below `/api/v1/toolsets`. */
  id: string;
  name: string;
  /** The only tenant that uses it; null: shared with all tenants. */
  tenant: string | null;
  description: string | null;
  /** Overrides that await an approval: their tools are hidden. */
  quarantined: PendingApproval[];
}
export interface ToolsetListReply {
  toolsets: ToolsetSummary[];
}

/** `registry.toolset.show`: one toolset with its history. `id` is `name` or `name@tenant`. */
export interface ToolsetShow {
  id: string;
  /** The version whose `spec` is wanted; absent: the latest. */
  version?: number;
}
export interface ToolsetDetail extends ToolsetSummary {
  spec: ToolsetSpec;
  /** Notes for its administrator, such as names that match no tool. */
  notes: string[];
  /** Newest first. */
  versions: ToolsetVersion[];
}

/** `registry.toolset.put`: makes a new version of a toolset, from `spec` or from an older version. */
export interface ToolsetPut {
  id: string;
  spec?: ToolsetSpec;
  restore_version?: number;
  /** User, for the history. */
  by: string;
}

/** `registry.toolset.remove`. */
export interface ToolsetRemove {
  id: string;
}
export interface ToolsetRemoveReply {
  removed: string;
}

/** `registry.toolset.approve`: puts an override into effect for the definition with this revision. */
export interface ToolsetApprove {
  id: string;
  /** Original name of the tool. */
  tool: string;
  /** Revision that the administrator saw. */
  pending_revision: string;
  by: string;
}

/** `registry.toolset.changed`: published after every change. */
export interface ToolsetChanged {
  id: string;
}
