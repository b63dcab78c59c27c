import type { JsonObject } from '@toolfleet/base/json';
import { integer, maybe, nullable, orEmpty, record, text, type Schema, type Value } from './json-schema.js';
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

/** Parses `name` or `name@version`; undefined when it is neither. */
export function parseToolsetRef(ref: string): ToolsetRef | undefined {
  const [, name, version] = /^([A-Za-z0-9_-]{1,64})(?:@([1-9]\d{0,8}))?$/.exec(ref) ?? [];
  if (name === undefined) return undefined;
  return version === undefined ? { name } : { name, version: Number(version) };
}

/** How a toolset shows the tool of one call. The call itself names the original tool. */
export interface ToolView {
  toolset: { name: string; version: number };
  /** Name of the tool in the toolset. */
  shownName: string;
  /** The toolset's changes of the arguments; absent: none. */
  arguments?: ShownArguments;
}

/** Arguments of a call that the toolset decides. */
export interface ShownArguments {
  preset: JsonObject;
  defaults: JsonObject;
  /** Names that are unknown to the caller, `preset`'s included. */
  hidden: readonly string[];
}

const WORD = text(undefined, { minLength: 1, maxLength: 200 });
/** `name` or `name@tenant`. */
const ID = text(undefined, { pattern: '^[A-Za-z0-9_-]{1,64}(@[A-Za-z0-9_.:-]{1,128})?$' });
/** Absent: the latest. */
const VERSION = maybe(integer(undefined, { minimum: 1 }));

/** `registry.toolset.get`: the toolset of this name that a tenant uses: its own, else the one that is shared with all tenants. */
export const TOOLSET_GET = record({ tenant_id: WORD, name: WORD, version: VERSION });
export type ToolsetGet = Value<typeof TOOLSET_GET>;

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

/** `registry.toolset.list`: the latest version of every toolset, or of one tenant's; null: of shared ones. */
export const TOOLSET_LIST = orEmpty(record({ tenant: maybe(nullable(text(undefined, { maxLength: 200 }))) }));
export type ToolsetList = NonNullable<Value<typeof TOOLSET_LIST>>;
export interface ToolsetListReply {
  toolsets: ToolsetSummary[];
}

/** `registry.toolset.show`: one toolset with its history, and the `spec` of this version. */
export const TOOLSET_SHOW = record({ id: ID, version: VERSION });
export type ToolsetShow = Value<typeof TOOLSET_SHOW>;

/** `registry.toolset.put`: makes a new version of a toolset, from `spec` or from an older version. `by` is a user, for the history. */
export const TOOLSET_PUT = record({
  id: ID,
  // Checked when the version is made, as an entry of the configuration file is.
  spec: maybe({ type: 'object' } as Schema<ToolsetSpec>),
  restore_version: VERSION,
  by: WORD,
});
export type ToolsetPut = Value<typeof TOOLSET_PUT>;

/** `registry.toolset.remove`. */
export const TOOLSET_REMOVE = record({ id: ID });
export type ToolsetRemove = Value<typeof TOOLSET_REMOVE>;

/**
 * `registry.toolset.approve`: puts an override into effect for the definition with the revision that the administrator saw. `tool`
 * is its original name.
 */
export const TOOLSET_APPROVE = record({ id: ID, tool: WORD, pending_revision: WORD, by: WORD });
export type ToolsetApprove = Value<typeof TOOLSET_APPROVE>;

/** `registry.toolset.changed`: published after every change. */
export interface ToolsetChanged {
  id: string;
}
