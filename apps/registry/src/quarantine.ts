/**
 * Quarantine of remote tools. An MCP server or an OpenAPI document can change a tool after an administrator approved it, or hide
 * instructions to the model in its texts. The registry pins approved definitions: a definition that differs from its pin, or looks
 * suspicious at first sight, is quarantined. Calls of the tool are refused until an administrator approves the new definition.
 *
 * - `quarantineReason` decides whether a definition needs an approval.
 * - `admitOrQuarantine` applies that to an announcement and the stored definitions.
 * - `QuarantineService` lists, approves and rejects pending definitions.
 */
import { isJsonObject, ToolError, type EpochMs, type Json, type JsonObject } from '@toolfleet/contracts';
import type { DefinitionChanged, PendingApproval, QuarantinedTool } from '@toolfleet/contracts/registry';
import type { ToolDefinition } from '@toolfleet/contracts/tool-definition';
import type { Clock } from '@toolfleet/resilience';
import { canonicalJson, sha256Hex } from '@toolfleet/bounded-schema';
import type { Logger } from '@toolfleet/telemetry';
import type { Catalog } from './catalog.js';
import {
  sharingSince,
  toDefinitionChanged,
  type Quarantine,
  type StoredTool,
  type ToolWrite,
} from './definition-store.js';
import type { DefinitionStore } from './redis-definition-store.js';
import { findSuspicions } from './suspicion/suspicious-text.js';
import { toRevision } from './tool-key.js';

/**
 * The fields an approval covers: everything a model or an MCP client sees of a remote tool or prompt, its name at the server, and for an OpenAPI
 * operation the request, including the servers and the token endpoint that receive credentials.
 */
const PINNED = ['name', 'description', 'input_schema', 'output_schema', 'annotations', 'request', 'listing'] as const;

/** Longer texts need a look by an administrator, in characters. */
const MAX_DESCRIPTION = 4_000;
const MAX_SCHEMA_TEXT = 2_000;

/** The reason why a definition is held that its source did not list before. */
const ADDED = 'new: the source did not list it when it was registered';

/** Tools named in the message about a registration. */
const MAX_NOTED = 5;

/** A changed document can hold hundreds of tools; their differences stay below the payload limit of NATS (16 MB). */
const MAX_DIFF_CHARS = 4 * 1024 * 1024;

/** The pin of a definition: SHA-256 of the canonical JSON of its pinned fields. */
export function toPin(definition: ToolDefinition): string {
  return sha256Hex(canonicalJson(pinnedFields(definition)));
}

/** Whether definitions with this binding are pinned: MCP servers and OpenAPI documents. */
export function isPinned({ binding: { kind } }: ToolDefinition): boolean {
  return kind === 'mcp' || kind === 'openapi';
}

/** Suspicious findings in the texts of a definition; empty without any. */
export function suspicions(definition: ToolDefinition): string[] {
  const found = new Set<string>();
  const check = (text: string, maxLength: number): void => {
    for (const suspicion of findSuspicions(text)) found.add(suspicion);
    if (text.length > maxLength) found.add('over-long text');
  };
  check(definition.name, MAX_SCHEMA_TEXT);
  check(remoteName(definition), MAX_SCHEMA_TEXT);
  check(definition.description, MAX_DESCRIPTION);
  for (const part of [definition.input_schema, definition.output_schema, definition.annotations]) {
    for (const text of textsIn(part)) check(text, MAX_SCHEMA_TEXT);
  }
  // Limited in size when it was read. Icons hold data, and resources are checked one by one when they are listed.
  const { icons: _icons, ...listed } = isResources(definition) ? {} : (definition.listing ?? {});
  for (const text of textsIn(listed)) check(text, Number.POSITIVE_INFINITY);
  return [...found];
}

/**
 * Why a definition must wait for an approval, or null when it takes effect at once. At first sight of a source only suspicious texts are
 * held; later every change of a pinned field is, and every new definition. `trusted: true`, `pin: off` and `pin: warn` let both pass;
 * `new_tools` decides on new definitions alone. Plain function endpoints and documents that are not read from a URL are written by the
 * operator and never held.
 *
 * @param approved the definition in effect; undefined at first sight
 * @param options of the announcement: `trusted`, `pin`, `new_tools`, `named`, `document`
 * @param removedPin pin of the definition that was in effect when the source stopped listing the tool. Without it, a server
 *   could drop a tool and list it again, changed, as if it were new.
 * @param isNew the source had approved definitions before, and this one is not one of them
 */
export function quarantineReason(
  definition: ToolDefinition,
  approved: ToolDefinition | undefined,
  options: JsonObject,
  removedPin?: string,
  isNew = false,
): string | null {
  if (!isRemote(definition, options)) return null;
  const { trusted, pin, new_tools: newTools, named } = options;
  const isTrusted = trusted === true || pin === 'off' || pin === 'warn';
  const isNamed = Array.isArray(named) && named.includes(remoteName(definition));
  const isHeld = isNew && !isNamed && (newTools === undefined ? !isTrusted : newTools === 'refuse');
  if (isTrusted) return isHeld ? ADDED : null;
  if ((approved ? toPin(approved) : removedPin) === toPin(definition)) return null;
  const suspicious = suspicions(definition);
  if (!approved && removedPin !== undefined) return ['changed since it was removed', ...suspicious].join('; ');
  if (!approved) {
    const sight = suspicious.length > 0 ? [`first sight: ${suspicious.join(', ')}`] : [];
    return [...(isHeld ? [ADDED] : []), ...sight].join('; ') || null;
  }
  const fields = pinDiff(approved, definition).map(({ field }) => field);
  return [`changed: ${fields.join(', ')}`, ...suspicious].join('; ');
}

/** The pinned fields that an approval of `pending` would change. */
export function pinDiff(approved: ToolDefinition | undefined, pending: ToolDefinition): QuarantinedTool['diff'] {
  const before = approved ? pinnedFields(approved) : {};
  const after = pinnedFields(pending);
  return PINNED.map((field) => ({ field, before: before[field] ?? null, after: after[field] ?? null })).filter(
    (row) => canonicalJson(row.before) !== canonicalJson(row.after),
  );
}

function pinnedFields(definition: ToolDefinition): Partial<Record<(typeof PINNED)[number], Json>> {
  const { binding, listing } = definition;
  return {
    // Absent without one, so that pins of tools without one stay as they are. Lists of resources change all the time.
    listing: listing && !isResources(definition) ? listing : undefined,
    // Both names: the one models call and the one the server knows.
    name: [definition.name, remoteName(definition)],
    description: definition.description,
    input_schema: definition.input_schema,
    output_schema: definition.output_schema ?? null,
    annotations: definition.annotations ?? null,
    // Without the operator's options.
    request:
      binding.kind === 'openapi'
        ? { method: binding.method, baseUrl: binding.baseUrl, path: binding.path, plan: binding.plan }
        : null,
  };
}

/** Whether a third party wrote the definition: an MCP server, or the author of a document that is read from a URL. */
function isRemote({ binding }: ToolDefinition, options: JsonObject): boolean {
  if (binding.kind === 'mcp') return binding.transport !== 'function-args';
  return binding.kind === 'openapi' && typeof options['document'] === 'string';
}

function isResources({ binding }: ToolDefinition): boolean {
  return binding.kind === 'mcp' && binding.method === 'resources/read';
}

function remoteName({ name, binding }: ToolDefinition): string {
  if (binding.kind === 'mcp') return binding.remoteName;
  return binding.kind === 'openapi' ? binding.operationId : name;
}

function* textsIn(value: Json | undefined): Generator<string> {
  if (typeof value === 'string') yield value;
  else if (Array.isArray(value)) for (const item of value) yield* textsIn(item);
  else if (isJsonObject(value)) {
    for (const [key, item] of Object.entries(value)) {
      yield key;
      yield* textsIn(item);
    }
  }
}

/** A checked definition and the one stored under its key. */
interface AnnouncedDefinition {
  key: string;
  owner: string;
  definition: ToolDefinition;
  known: StoredTool | undefined;
  /** Options of the announcement. */
  options: JsonObject;
  /** The remote document is unchanged, so a difference comes from the operator's configuration or a new version of our own code. */
  isSameDocument: boolean;
  /** Pin of the definition that was in effect when the source stopped listing the tool. */
  removedPin: string | undefined;
  /** Definitions of the source that are in effect. */
  inEffect: readonly ToolDefinition[];
}

/** Whether a known source adds a definition. One that only has another name, because the operator chose another prefix, is not new. */
function isAdded(definition: ToolDefinition, inEffect: readonly ToolDefinition[]): boolean {
  const isSame = (other: ToolDefinition): boolean =>
    other.name === definition.name ||
    (remoteName(other) === remoteName(definition) && toPin({ ...definition, name: other.name }) === toPin(other));
  return inEffect.length > 0 && !inEffect.some(isSame);
}

/** The write that puts an announced definition into effect, or that keeps the approved one and holds the new one for approval. */
export function admitOrQuarantine(announced: AnnouncedDefinition, now: EpochMs): ToolWrite {
  const { key, owner, definition, known, options, isSameDocument, removedPin, inEffect } = announced;
  const revision = toRevision(definition);
  const fresh: StoredTool = { key, owner, definition, revision };
  if (!isPinned(definition)) return { tool: fresh };
  const over = known ?? null;
  // Most announcements repeat the stored definition; comparing revisions is much cheaper than comparing large schemas.
  if (known && !known.quarantine && (isSameDocument || known.revision === revision)) return { tool: fresh, over };
  const approved = known && (!known.quarantine || known.quarantine.wasApproved) ? known : undefined;
  const reason = quarantineReason(
    definition,
    approved?.definition,
    options,
    isSameDocument ? undefined : removedPin,
    !approved && !isSameDocument && isAdded(definition, inEffect),
  );
  if (reason === null) return { tool: fresh, over };
  // A repeated announcement of the same change keeps the time it was first seen and the rejection.
  const same = known?.quarantine?.pendingRevision === revision ? known.quarantine : undefined;
  const tool: StoredTool = {
    key,
    owner,
    definition: approved?.definition ?? definition,
    revision: approved?.revision ?? revision,
    quarantine: {
      reason,
      sinceAt: same?.sinceAt ?? now,
      pending: definition,
      pendingRevision: revision,
      wasApproved: approved !== undefined,
      rejected: same?.rejected,
    },
  };
  return { tool, over };
}

/** What awaits an approval of a tool, by the name its callers use; undefined for a tool that is not quarantined. */
export function toPendingApproval({ definition, quarantine }: StoredTool): PendingApproval | undefined {
  if (!quarantine) return undefined;
  const { reason, pendingRevision } = quarantine;
  return { name: definition.name, reason, pending_revision: pendingRevision };
}

/**
 * Text of a reply to a registration about quarantined tools and their release; undefined without any.
 */
export function approvalNote(pending: readonly PendingApproval[]): string | undefined {
  const [first] = pending;
  if (!first) return undefined;
  const shown = pending.slice(0, MAX_NOTED).map(({ name, reason }) => `${name} (${reason})`);
  if (pending.length > MAX_NOTED) shown.push(`${pending.length - MAX_NOTED} more`);
  const path = `/api/v1/quarantine/${first.name}`;
  return (
    `${pending.length} of them cannot be called before an administrator approves: ${shown.join(', ')}; ` +
    `see "fleetctl approvals show ${first.name}" or Approvals in the console, or POST ${path}/approve with its pending_revision`
  );
}

/** Administrators' side of the quarantine. The gateway checks who may call it. Decisions are logged with the administrator. */
export class QuarantineService {
  constructor(
    private readonly store: DefinitionStore,
    private readonly catalog: Catalog,
    private readonly clock: Clock,
    private readonly publish: (change: DefinitionChanged) => void,
    private readonly logger: Logger,
  ) {}

  /** Tools that await approval, with their differences; those beyond 4 Mi characters in total are omitted and marked so. */
  async list(): Promise<QuarantinedTool[]> {
    await this.catalog.refresh();
    let charsLeft = MAX_DIFF_CHARS;
    return this.catalog.quarantined().map(({ key, definition, revision, quarantine }) => {
      const approved = quarantine.wasApproved ? definition : undefined;
      const diff = charsLeft > 0 ? pinDiff(approved, quarantine.pending) : [];
      charsLeft -= JSON.stringify(diff).length;
      const isOmitted = charsLeft <= 0;
      return {
        name: key,
        source: definition.source,
        reason: quarantine.reason,
        since_at: quarantine.sinceAt,
        pending_revision: quarantine.pendingRevision,
        approved_revision: approved ? revision : null,
        rejected: quarantine.rejected,
        diff: isOmitted ? [] : diff,
        diff_omitted: isOmitted || undefined,
      };
    });
  }

  /**
   * Puts the pending definition into effect and returns its revision.
   * @param pendingRevision the revision the administrator saw
   * @throws ToolError NOT_FOUND when no definition of this tool is pending, REQUEST_INVALID when it changed since it was shown
   */
  async approve(key: string, pendingRevision: string, by: string): Promise<string> {
    const held = await this.pending(key, pendingRevision);
    const { pending: definition } = held.quarantine;
    const sharedSince = sharingSince(definition, held, this.clock.now());
    await this.replace({ key, owner: held.owner, definition, revision: pendingRevision, sharedSince }, held);
    this.logger.warn({ tool: key, revision: pendingRevision, approved_by: by }, 'a quarantined tool was approved');
    return pendingRevision;
  }

  /**
   * Marks the pending definition as rejected. It stays in quarantine until the server lists a different one.
   * @throws ToolError as `approve`
   */
  async reject(key: string, pendingRevision: string, by: string): Promise<void> {
    const held = await this.pending(key, pendingRevision);
    await this.replace({ ...held, quarantine: { ...held.quarantine, rejected: { at: this.clock.now(), by } } }, held);
    this.logger.warn({ tool: key, revision: pendingRevision, rejected_by: by }, 'a quarantined tool was rejected');
  }

  private async pending(key: string, pendingRevision: string): Promise<StoredTool & { quarantine: Quarantine }> {
    await this.catalog.refresh();
    const stored = this.catalog.stored(key);
    const quarantine = stored?.quarantine;
    if (!quarantine) throw new ToolError('NOT_FOUND', { message: `No definition of ${key} awaits approval` });
    if (quarantine.pendingRevision !== pendingRevision) throw changedMeanwhile(quarantine.pendingRevision);
    return { ...stored, quarantine };
  }

  /** Writes `tool` only while the stored one is still `shown`; another replica may have written meanwhile. */
  private async replace(tool: StoredTool, shown: StoredTool): Promise<void> {
    const change = await this.store.replace(tool, shown);
    if (change.changed.length === 0) throw changedMeanwhile();
    const message = toDefinitionChanged(tool.definition.source, [change]);
    if (message) this.publish(message);
  }
}

function changedMeanwhile(pendingRevision?: string): ToolError {
  return new ToolError('REQUEST_INVALID', {
    message: 'The tool changed since it was shown; review the pending definition again',
    details: pendingRevision
      ? { field: 'pending_revision', pending_revision: pendingRevision }
      : { field: 'pending_revision' },
  });
}
