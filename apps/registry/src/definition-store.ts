import type { EpochMs, Milliseconds } from '@toolfleet/contracts';
import type { DefinitionChanged, RefusedTool, SourceState } from '@toolfleet/contracts/registry';
import { sharesResults, type ToolDefinition, type ToolSource } from '@toolfleet/contracts/tool-definition';
import { sha256Hex } from '@toolfleet/bounded-schema';
import { keyName } from './tool-key.js';

/** A stored definition: the one in effect, and the one that awaits approval. */
export interface StoredTool {
  /** Name, prefixed with the tenant if it belongs to one: `acme/crm_search`. Unique in the fleet. */
  key: string;
  /** `kind/name` of its source, its only writer. */
  owner: string;
  definition: ToolDefinition;
  revision: string;
  /** If present, calls are refused until an administrator approves. */
  quarantine?: Quarantine;
  /** Since when it shares results. No part of the revision: a source that is read again keeps it. */
  sharedSince?: EpochMs | undefined;
}

/**
 * Since when a tool shares the results of its calls, once `definition` is in effect in place of `known`. Calls from before are not shared:
 * their users made them while no other caller saw the results.
 */
export function sharingSince(
  definition: ToolDefinition,
  known: StoredTool | undefined,
  now: EpochMs,
): EpochMs | undefined {
  if (!sharesResults(definition)) return undefined;
  return known && sharesResults(known.definition) ? (known.sharedSince ?? now) : now;
}

/** A remote definition that was held back. */
export interface Quarantine {
  reason: string;
  sinceAt: EpochMs;
  pending: ToolDefinition;
  pendingRevision: string;
  /** False: the tool was never approved, and `definition` is the pending one. */
  wasApproved: boolean;
  /** An administrator rejected this revision. */
  rejected?: { at: EpochMs; by: string };
}

/** Result of a write; tools are listed by key. */
export interface StoreChange {
  /** Catalog version after the write. It stays the same if nothing changed. */
  version: number;
  added: string[];
  changed: string[];
  removed: string[];
}
export interface PutChange extends StoreChange {
  /** Keys that belong to another owner; they were left alone. */
  conflicts: { key: string; owner: string }[];
  /** Keys that changed since the decision to write them; they were left alone and need a new decision. */
  moved: string[];
  /** The registration in `PutTerms.footing` is no longer stored; nothing was written. */
  isSuperseded: boolean;
}

/** Terms under which the tools of an owner are written. */
export interface PutTerms {
  /** The owner counts as unavailable unless it writes again within this time. Absent: it never does. */
  ttlMs?: Milliseconds;
  /** For tools of a registration made at run time. */
  footing?: Footing;
}

/**
 * The registration that tools result from. Tools and registration are checked and written in one step. Otherwise a refresh that
 * was running while the registration was removed or replaced would bring its tools back.
 */
export interface Footing {
  registration: StoredRegistration;
  /**
   * True: the registration is new, and stored unless all its tools belong to others. False: exactly this registration must
   * still be stored.
   */
  isNew: boolean;
}

/** A tool to write. */
export interface ToolWrite {
  tool: StoredTool;
  /**
   * The stored tool on which the decision was based, null for none. The write happens only over that one; otherwise it would
   * undo a concurrent approval. Absent: write over anything.
   */
  over?: StoredTool | null;
}

/** Changes since a version. */
export interface CatalogDelta {
  version: number;
  tools: StoredTool[];
  removed: string[];
  /** Owners that did not repeat their announcement in time. */
  away: string[];
}

/** A registration made at run time. It is stored, with sealed secrets, and survives restarts. */
export interface StoredRegistration<T = unknown> {
  kind: 'openapi' | 'mcp';
  /** Source name: `github`, or `github@acme` of a tenant. */
  name: string;
  body: T;
}

/** Result of the last refresh of an OpenAPI document or MCP server, by any replica. */
export interface SourceLook {
  state: Extract<SourceState, 'pending' | 'ok' | 'failed' | 'auth_failed'>;
  at: EpochMs;
  error?: string;
  refused: RefusedTool[];
  notes: string[];
  /** Protocol revision of an MCP server. */
  protocolVersion?: string;
  /** The next look of that replica; absent: none is planned. */
  nextAt?: EpochMs;
}

/** The last look at a source, and the last one that succeeded. */
export interface StoredLook extends SourceLook {
  okAt?: EpochMs;
  /** The last look that found another protocol revision than the one before. */
  protocolSwitch?: { from: string; at: EpochMs };
}

/** Refused tools and notes kept per source. */
const MAX_LOOK_ROWS = 50;
const MAX_LOOK_ERROR = 1_000;

/** A look in the form that is stored after the previous one. */
export function toStoredLook(look: SourceLook, before: StoredLook | undefined): StoredLook {
  const from = before?.protocolVersion;
  const protocolVersion = look.protocolVersion ?? from;
  const hasSwitched = from !== undefined && from !== protocolVersion;
  return {
    ...look,
    protocolVersion,
    protocolSwitch: hasSwitched ? { from, at: look.at } : before?.protocolSwitch,
    error: look.error?.slice(0, MAX_LOOK_ERROR),
    refused: look.refused.slice(0, MAX_LOOK_ROWS),
    notes: look.notes.slice(0, MAX_LOOK_ROWS),
    okAt: look.state === 'ok' ? look.at : before?.okAt,
  };
}

/** Pins kept per owner. The limit stops a server that lists different tools each time from filling the store. */
export const MAX_PINS = 20_000;

/** A registration as stored. */
export function registrationText({ kind, name, body }: StoredRegistration): string {
  return JSON.stringify({ kind, name, body });
}

/** Hash that identifies the content of a registration. */
export function registrationStamp(registration: StoredRegistration): string {
  return sha256Hex(registrationText(registration));
}

/** Value that changes whenever the definition in effect or the pending one changes; empty for no tool. */
export function toStamp(tool: StoredTool | null | undefined): string {
  return tool ? `${tool.revision}:${tool.quarantine?.pendingRevision ?? ''}` : '';
}

/** The `registry.definition.changed` message for changes of one source; undefined when nothing changed. */
export function toDefinitionChanged(
  source: ToolSource,
  changes: readonly StoreChange[],
): DefinitionChanged | undefined {
  const names = (list: 'added' | 'changed' | 'removed') => changes.flatMap((change) => change[list]).map(keyName);
  const [added, changed, removed] = [names('added'), names('changed'), names('removed')];
  if (added.length + changed.length + removed.length === 0) return undefined;
  return { version: Math.max(...changes.map(({ version }) => version)), source, added, changed, removed };
}
