import type { EpochMs, Milliseconds, ToolDefinition } from '@toolfleet/contracts';

/** A definition as kept: what is in force, and what waits for approval. */
export interface StoredTool {
  /** Name, behind the tenant when it belongs to one: `acme/crm_search`. Unique in the fleet. */
  key: string;
  /** Who may change it: `kind/name` of its source. */
  owner: string;
  definition: ToolDefinition;
  revision: string;
  /** Present: calls are refused until an administrator approves. */
  quarantine?: Quarantine;
}

/** A remote definition that was held back. */
export interface Quarantine {
  reason: string;
  sinceAt: EpochMs;
  pending: ToolDefinition;
  pendingRevision: string;
  /** False: never approved, `definition` is the pending one. */
  wasApproved: boolean;
  /** An administrator keeps this revision out. */
  rejected?: { at: EpochMs; by: string };
}

/** What a change did, by key. */
export interface StoreChange {
  /** Catalog version after the change; unchanged when nothing changed. */
  version: number;
  added: string[];
  changed: string[];
  removed: string[];
}
export interface PutChange extends StoreChange {
  /** Keys that belong to somebody else; nothing of theirs was touched. */
  conflicts: { key: string; owner: string }[];
  /** Keys that changed since the decision to write them was made; left alone, to be decided again. */
  moved: string[];
}

/** A tool to write. */
export interface ToolWrite {
  tool: StoredTool;
  /**
   * The stored tool the decision was made on, null for none: the tool is written only over that one, or what an administrator
   * approved meanwhile would be undone. Absent: whatever is stored.
   */
  over?: StoredTool | null;
}

/** Changes a reader has not seen yet. */
export interface CatalogDelta {
  version: number;
  tools: StoredTool[];
  removed: string[];
  /** Owners whose announcement was not repeated in time. */
  away: string[];
}

/** A registration made at run time, kept so that it survives restarts. Secrets in it are sealed. */
export interface StoredRegistration<T = unknown> {
  kind: 'openapi' | 'mcp';
  /** Source name: `github`, or `github@acme` of a tenant. */
  name: string;
  body: T;
}

/** Durable definitions with a version that grows with every change. Methods are atomic; infrastructure failures reject. */
export abstract class DefinitionStore {
  /** Grows with every change. */
  abstract version(): Promise<number>;
  /** What changed after `since`; 0 gives everything. */
  abstract changesSince(since: number): Promise<CatalogDelta>;
  /**
   * Writes tools of one owner. A key of another owner is a conflict and left alone, and so is one that moved. `ttlMs`: the
   * owner is away unless it writes again in that time; absent: it is never away.
   */
  abstract put(owner: string, writes: readonly ToolWrite[], ttlMs?: Milliseconds): Promise<PutChange>;
  /** Writes one tool in place of `seen`, and leaves its owner's lease as it is. Nothing changes when it is not as seen any more. */
  abstract replace(tool: StoredTool, seen: StoredTool): Promise<StoreChange>;
  /** Removes the tools of an owner except the named ones. */
  abstract retain(owner: string, keys: readonly string[]): Promise<StoreChange>;
  /** Removes named tools of an owner, or all of them. */
  abstract remove(owner: string, keys?: readonly string[]): Promise<StoreChange>;
  /** Marks owners whose time has passed. Returns a change per owner, to one caller only. */
  abstract expire(): Promise<{ owner: string; change: StoreChange }[]>;

  abstract registrations(): Promise<StoredRegistration[]>;
  abstract saveRegistration(registration: StoredRegistration): Promise<void>;
  abstract removeRegistration(kind: StoredRegistration['kind'], name: string): Promise<boolean>;
}

/** Marks that decide whether a stored tool changed; empty for none. */
export function stampOf(tool: StoredTool | null | undefined): string {
  return tool ? `${tool.revision}:${tool.quarantine?.pendingRevision ?? ''}` : '';
}
