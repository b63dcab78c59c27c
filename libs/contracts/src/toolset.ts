import type { JsonObject } from './json.js';
import type { PendingApproval } from './resources/sources.js';
import type { ToolsetSpec, ToolsetSummary } from './resources/toolsets.js';

export { TOOLSET_SCHEMA } from './resources/toolsets.js';
export type {
  ToolOverride,
  ToolsetDetail,
  ToolSelection,
  ToolsetOrigin,
  ToolsetSpec,
  ToolsetSummary,
  ToolsetVersion,
} from './resources/toolsets.js';

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

/** `registry.toolset.list`: the latest version of every toolset, or of those of one tenant. */
export interface ToolsetList {
  /** Only toolsets of this tenant; null: only shared ones; absent: all. */
  tenant?: string | null;
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
