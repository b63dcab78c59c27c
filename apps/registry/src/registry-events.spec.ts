import { eventId, type FleetEvent } from '@toolfleet/contracts/events';
import type { ToolDefinition } from '@toolfleet/contracts/tool-definition';
import { describe, expect, it } from 'vitest';
import type { StoredLook, StoredTool, Quarantine } from './definition-store.js';
import { RegistryEvents } from './registry-events.js';

const held = (rejected?: Quarantine['rejected']): StoredTool & { quarantine: Quarantine } => {
  const definition = { name: 'crm_get', source: { kind: 'mcp', name: 'crm@acme' } } as ToolDefinition;
  const quarantine = {
    reason: 'changed: description',
    sinceAt: 7,
    pending: definition,
    pendingRevision: 'r2',
    wasApproved: true,
    rejected,
  };
  return { key: 'acme/crm_get', owner: 'mcp/crm@acme', definition, revision: 'r1', quarantine };
};

describe('events of the registry', () => {
  it('follow from what is stored, the same each time', async () => {
    let tools = [held()];
    let look: StoredLook = { state: 'failed', at: 20, okAt: 10, error: 'no answer', refused: [], notes: [] };
    let reported: FleetEvent[] = [];
    const events = new RegistryEvents(
      { looks: async () => new Map([['openapi/shop', look]]) },
      { refresh: async () => undefined, quarantined: () => tools },
      (event) => reported.push(event),
    );
    await events.reportAll();
    expect(reported).toMatchObject([
      {
        kind: 'tool.quarantined',
        tenant_id: 'acme',
        tool: 'crm_get',
        data: { pending_revision: 'r2', approved_revision: 'r1' },
      },
      { kind: 'source.failing', tenant_id: 'operator', data: { source: 'openapi/shop', error: 'no answer' } },
    ]);
    const ids = reported.map(eventId);
    reported = [];
    look = { ...look, at: 30, error: 'still none' };
    await events.reportAll();
    expect(reported.map(eventId)).toEqual(ids);

    // Failing again after a success is another event; what was rejected needs none.
    reported = [];
    look = { ...look, okAt: 40, at: 50 };
    tools = [held({ at: 1, by: 'ann' })];
    await events.reportAll();
    expect(reported.map(({ kind }) => kind)).toEqual(['source.failing']);
    expect(ids).not.toContain(eventId(reported[0]!));
  });
});
