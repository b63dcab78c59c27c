import type { JsonObject } from '@toolfleet/base/json';
import { integer, maybe, record, text } from './json-schema.js';
import type { PendingApproval } from './resources/sources.js';
import type { ToolsetSpec } from './resources/toolsets.js';

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

/**
 * `registry.toolset.get`: the toolset of this name that a tenant uses: its own, else the one that is shared with all tenants; the latest
 * version by default.
 */
export const TOOLSET_GET = record({ tenant_id: WORD, name: WORD, version: maybe(integer(undefined, { minimum: 1 })) });

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

/** `registry.toolset.changed`: published after every change. */
export interface ToolsetChanged {
  id: string;
}
