import { describe, expect, it } from 'vitest';
import type { Principal } from '@toolfleet/contracts';
import type { FleetStatus } from '@toolfleet/contracts/fleet';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { FakeClock } from '@toolfleet/testing';
import type { ToolList } from '@toolfleet/catalog';
import { FleetView, FleetWatch } from './fleet-view.js';

const principal = (roles: string[]): Principal => ({
  tenantId: 'acme',
  userId: 'ann',
  roles,
  tools: ['*'],
  via: 'local',
});
const OPERATOR = principal(['operator']);
/** An administrator of a tenant sees no more of the fleet than its members. */
const MEMBERS = [principal([]), principal(['admin'])];

function setUp() {
  const clock = new FakeClock();
  let heard: ((message: { body: unknown }) => void) | undefined;
  const watch = new FleetWatch(
    { subscribe: (_: string, received: never) => void (heard = received) } as never,
    clock,
    'g0',
  );
  watch.follow();
  const list = { originals: async () => [{ name: 'mine' } as RegisteredTool] } as unknown as ToolList;
  const tell = (status: Partial<FleetStatus>) =>
    heard!({ body: { service: 'gateway', instance: 'g1', ttl_ms: 15_000, breakers: [], ...status } });
  return { clock, watch, tell, heard: () => heard!, view: new FleetView(watch, [], list) };
}

describe('state of the fleet', () => {
  it('shows processes with slots until their heartbeats stop', () => {
    const { clock, tell, view } = setUp();
    tell({ service: 'mcp-executor', instance: 'm1', slots: { busy: 1, total: 4 } });
    clock.advance(9_000);
    tell({ service: 'mcp-executor', instance: 'm2', slots: { busy: 0, total: 4 } });
    tell({});
    expect(view.executorsNow()).toEqual([
      { service: 'mcp-executor', instance: 'm1', slots: { busy: 1, total: 4 }, age_ms: 9_000 },
      { service: 'mcp-executor', instance: 'm2', slots: { busy: 0, total: 4 }, age_ms: 0 },
    ]);
    clock.advance(9_000);
    expect(view.executorsNow().map(({ instance }) => instance)).toEqual(['m2']);
  });

  it('knows that a gateway is gone once it would have heard it, and not while it hears nothing itself', () => {
    const { clock, tell, watch } = setUp();
    const beat = (...instances: string[]) => {
      for (const instance of instances) tell({ instance });
      clock.advance(5_000);
    };
    beat('g0', 'g1');
    beat('g0');
    beat('g0');
    expect([watch.isGone('g1'), watch.isGone('g2')]).toEqual([false, false]);
    beat('g0');
    expect([watch.isGone('g1'), watch.isGone('g2'), watch.isGone('g0')]).toEqual([true, true, false]);
    clock.suspend(20_000);
    expect(watch.isGone('g1')).toBe(false);
    beat('g0');
    expect(watch.isGone('g1')).toBe(false);
  });

  it('counts the processes of a service that are alive', () => {
    const { clock, tell, watch } = setUp();
    expect(watch.count('gateway')).toBe(0);
    tell({ instance: 'g1' });
    clock.advance(9_000);
    tell({ instance: 'g2' });
    tell({ service: 'mcp-executor', instance: 'm1' });
    expect(watch.count('gateway')).toBe(2);
    clock.advance(9_000);
    expect(watch.count('gateway')).toBe(1);
  });

  it('ignores malformed heartbeats', () => {
    const { heard, watch } = setUp();
    for (const body of [undefined, 'x', {}, { service: 1 }, { service: 'a', instance: 'b', ttl_ms: 1 }])
      heard()({ body });
    expect(watch.processes()).toEqual([]);
  });

  it('shows a member the breakers of its tools and an operator all, the longest open of several processes', async () => {
    const { tell, view } = setUp();
    const open = (key: string, forMs: number) => ({ key, state: 'open' as const, open_for_ms: forMs });
    tell({ breakers: [open('mine', 10), open('foreign', 5)] });
    tell({ instance: 'g2', breakers: [{ key: 'mine', state: 'half_open', open_for_ms: 0 }] });
    tell({ instance: 'g3', breakers: [open('mine', 30)] });
    tell({ service: 'openapi-executor', instance: 'o1', breakers: [open('https://api.internal', 9)] });
    for (const member of MEMBERS) {
      expect(await view.breakersNow(member)).toEqual([
        { key: 'mine', state: 'open', open_for_ms: 30, protects: 'tool', service: 'gateway', instances: 3 },
      ]);
    }
    const all = await view.breakersNow(OPERATOR);
    expect(all.map(({ key, protects }) => [key, protects])).toEqual([
      ['mine', 'tool'],
      ['foreign', 'tool'],
      ['https://api.internal', 'target'],
    ]);
  });
});
