import type { EpochMs, JsonObject } from '@toolfleet/contracts';
import type { ToolDefinition } from '@toolfleet/contracts/tool-definition';
import type { StoredTool, ToolWrite } from './definition-store.js';
import type { PinPolicy } from './pin-policy.js';
import { revisionOf } from './register-definition.js';

/** An announced definition and what is stored under its key. */
export interface AnnouncedDefinition {
  key: string;
  owner: string;
  definition: ToolDefinition;
  known: StoredTool | undefined;
  options: JsonObject;
  /** The remote side is as it was when the known definition was made: what differs is the operator's doing, or ours. */
  isSameDocument?: boolean;
  /** Pin of the definition that was in force when the source stopped naming the tool. */
  removedPin?: string | undefined;
}

/** What becomes of an announced definition: in force, or held until an administrator has seen it. */
export function decideDefinition(
  { key, owner, definition, known, options, isSameDocument = false, removedPin }: AnnouncedDefinition,
  pins: PinPolicy,
  now: EpochMs,
): ToolWrite {
  const revision = revisionOf(definition);
  const fresh: StoredTool = { key, owner, definition, revision };
  const { kind } = definition.binding;
  if (kind !== 'mcp' && kind !== 'openapi') return { tool: fresh };
  const over = known ?? null;
  // Most announcements repeat what is in force; comparing revisions spares large documents the comparison of contents.
  if (known && !known.quarantine && (isSameDocument || known.revision === revision)) return { tool: fresh, over };
  const approved = known && (!known.quarantine || known.quarantine.wasApproved) ? known : undefined;
  const reason = pins.holds(definition, approved?.definition, options, isSameDocument ? undefined : removedPin);
  if (reason === null) return { tool: fresh, over };
  // The same change announced again keeps the instant at which it was first seen, and what an administrator said of it.
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
      ...(same?.rejected ? { rejected: same.rejected } : {}),
    },
  };
  return { tool, over };
}
