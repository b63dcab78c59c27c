import type { EpochMs, Milliseconds } from '@toolfleet/contracts';
import type { ToolDefinition } from '@toolfleet/contracts/tool-definition';
import { sha256Hex } from '@toolfleet/schema';
import type { Protections } from './protections.js';

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
  /** The registration of the terms is not kept any more, and nothing was written. */
  isSuperseded: boolean;
}

/** Under which terms an owner's tools are written. */
export interface PutTerms {
  /** The owner is away unless it writes again in that time; absent: it is never away. */
  ttlMs?: Milliseconds;
  /** What the tools follow from when they were registered at run time. */
  footing?: Footing;
}

/**
 * The registration tools follow from. Both change in one step, or a look that was under way while the registration was undone
 * or replaced would bring back what it gave.
 */
export interface Footing {
  registration: StoredRegistration;
  /** True: it is made now, and kept unless all its tools are of others. False: it must be kept exactly so. */
  isNew: boolean;
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
  /** Writes tools of one owner. A key of another owner is a conflict and left alone, and so is one that moved. */
  abstract put(owner: string, writes: readonly ToolWrite[], terms?: PutTerms): Promise<PutChange>;
  /** Writes one tool in place of `seen`, and leaves its owner's lease as it is. Nothing changes when it is not as seen any more. */
  abstract replace(tool: StoredTool, seen: StoredTool): Promise<StoreChange>;
  /** Removes the tools of an owner except the named ones; with a registration, only while exactly that one is kept. */
  abstract retain(owner: string, keys: readonly string[], registration?: StoredRegistration): Promise<StoreChange>;
  /** Removes named tools of an owner. */
  abstract remove(owner: string, keys: readonly string[]): Promise<StoreChange>;
  /** Removes all tools of an owner and its registration. `wasKept`: there was one. */
  abstract forget(owner: string): Promise<StoreChange & { wasKept: boolean }>;
  /** Removes all tools of an owner whose registration is not kept. */
  abstract removeOrphans(owner: string): Promise<StoreChange>;
  /** Marks owners whose time has passed. Returns a change per owner, to one caller only. */
  abstract expire(): Promise<{ owner: string; change: StoreChange }[]>;

  abstract registrations(): Promise<StoredRegistration[]>;

  /** The protections below which the tools of these keys may not be announced; keys without any are left out. */
  abstract floors(keys: readonly string[]): Promise<Map<string, Protections>>;
  /** Keeps protections. They stay when the tool is removed, and go only with `dropFloors`. */
  abstract raiseFloors(floors: ReadonlyMap<string, Protections>): Promise<void>;
  abstract dropFloors(keys: readonly string[]): Promise<void>;

  /** Pins of tools that an owner named before, by key. */
  abstract removedPins(owner: string, keys: readonly string[]): Promise<Map<string, string>>;
  /** Keeps the pins of tools that are about to be removed; at most 20,000 of an owner. */
  abstract keepPins(owner: string, pins: ReadonlyMap<string, string>): Promise<void>;
  abstract dropPins(owner: string): Promise<void>;

  /** SHA-256 of the document that an owner's tools were last made of; undefined when none was kept. */
  abstract documentOf(owner: string): Promise<string | undefined>;
  abstract keepDocument(owner: string, sha256: string | undefined): Promise<void>;
}

/** A registration as it is kept, under its owner. */
export function registrationText({ kind, name, body }: StoredRegistration): string {
  return JSON.stringify({ kind, name, body });
}

/** Pins kept of one owner: a server that names other tools each time must not fill the store. */
export const MOST_PINS = 20_000;

/** Tells registrations apart. */
export function registrationStamp(registration: StoredRegistration): string {
  return sha256Hex(registrationText(registration));
}

/** Marks that decide whether a stored tool changed; empty for none. */
export function stampOf(tool: StoredTool | null | undefined): string {
  return tool ? `${tool.revision}:${tool.quarantine?.pendingRevision ?? ''}` : '';
}
