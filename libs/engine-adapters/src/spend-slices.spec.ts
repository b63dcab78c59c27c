import type { Principal } from '@toolfleet/contracts';
import type { SpendMessage } from '@toolfleet/contracts/budget';
import { SystemClock } from '@toolfleet/resilience';
import { MemoryBudget } from '@toolfleet/testing/memory-ports';
import { describe, expect, it } from 'vitest';
import { SpendSlices } from './spend-slices.js';

const agent: Principal = {
  tenantId: 'acme',
  userId: 'ann',
  roles: [],
  tools: ['*'],
  via: 'delegation',
  parentCallId: 'c1',
  parentSpends: { requestId: 'r1', agentId: 'planner' },
};
const message: SpendMessage = { op: 'hold', slice: 's1', tool: 'multi_agent', tokens: 5, micro_usd: 40 };
const { signal } = new AbortController();

describe('slices of a budget', () => {
  it('take call and scopes from the delegation token', async () => {
    const budget = new MemoryBudget(100);
    const slices = new SpendSlices(budget, new SystemClock());
    expect(await slices.spend(agent, message, 1_000, signal)).toEqual({ held: true });
    expect([...budget.held.keys()]).toEqual(['c1/s1']);
    await slices.spend(agent, { ...message, op: 'settle', micro_usd: 30 }, 1_000, signal);
    const scopes = { tenant_id: 'acme', request_id: 'r1', agent_id: 'planner' };
    const row = { parent_call_id: 'c1', user_id: 'ann', tool_name: 'multi_agent', real_tokens: 5, micro_usd: 30 };
    expect(budget.settled).toMatchObject([{ call_id: 'c1/s1', scopes, micro_usd: 30, row }]);
    await slices.spend(agent, { ...message, slice: 's2' }, 1_000, signal);
    await slices.spend(agent, { ...message, op: 'release', slice: 's2' }, 1_000, signal);
    expect(budget.released).toEqual(['c1/s2']);
  });

  it('are refused with the amounts spent and held', async () => {
    const slices = new SpendSlices(new MemoryBudget(100), new SystemClock());
    await slices.spend(agent, { ...message, micro_usd: 70 }, 1_000, signal);
    expect(await slices.spend(agent, { ...message, slice: 's2' }, 1_000, signal)).toMatchObject({
      held: false,
      code: 'BUDGET_EXCEEDED',
      limit: 100,
      used: 70,
    });
  });

  it('require a delegation token', async () => {
    const budget = new MemoryBudget(100);
    const slices = new SpendSlices(budget, new SystemClock());
    const { parentCallId: _call, parentSpends: _spends, ...caller } = agent;
    for (const other of [
      { ...agent, via: 'api_key' as const },
      { ...caller, via: 'delegation' as const },
    ]) {
      await expect(slices.spend(other, message, 1_000, signal)).rejects.toMatchObject({ code: 'PERMISSION_DENIED' });
    }
    expect(budget.held.size).toBe(0);
  });
});
