import { instantOrNull, OPERATOR_TENANT } from '@toolfleet/contracts';
import type { FleetEvent } from '@toolfleet/contracts/events';
import type { ToolSource } from '@toolfleet/contracts/tool-definition';
import type { Catalog } from './catalog.js';
import type { Quarantine, StoredLook, StoredTool } from './definition-store.js';
import type { DefinitionStore } from './redis-definition-store.js';
import { parseOwner, sourceTenant, toOwner } from './tool-key.js';

/**
 * Reports quarantined tools and failing sources as events. They follow from the stored state, so that they are reported again after a
 * crash, and by every replica: the ids are the same.
 */
export class RegistryEvents {
  constructor(
    private readonly store: Pick<DefinitionStore, 'looks'>,
    private readonly catalog: Pick<Catalog, 'refresh' | 'quarantined'>,
    private readonly report: (event: FleetEvent) => void,
  ) {}

  /** Reports everything; repeated reports cost nothing. Rejects when the store is unavailable. */
  async reportAll(): Promise<void> {
    await this.catalog.refresh();
    for (const tool of this.catalog.quarantined()) if (!tool.quarantine.rejected) this.report(quarantined(tool));
    for (const [owner, look] of await this.store.looks())
      if (look.error !== undefined) this.report(failing(parseOwner(owner), look));
  }
}

function quarantined({ definition, quarantine, revision }: StoredTool & { quarantine: Quarantine }): FleetEvent {
  const { name, source } = definition;
  return {
    kind: 'tool.quarantined',
    tenant_id: tenantOf(source),
    at: quarantine.sinceAt,
    tool: name,
    data: {
      tool: name,
      source: toOwner(source),
      reason: quarantine.reason,
      pending_revision: quarantine.pendingRevision,
      approved_revision: quarantine.wasApproved ? revision : null,
    },
  };
}

/** One event for all failures since the last success. */
function failing(source: ToolSource, { at, okAt, error = 'The source cannot be read' }: StoredLook): FleetEvent {
  return {
    kind: 'source.failing',
    tenant_id: tenantOf(source),
    at,
    data: { source: toOwner(source), error, last_success_at: instantOrNull(okAt) },
  };
}

const tenantOf = (source: ToolSource): string => sourceTenant(source) ?? OPERATOR_TENANT;
