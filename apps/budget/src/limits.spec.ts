import { describe, expect, it } from 'vitest';
import { countedScopes, limitTable, tenantLimits, shownScope, unlimited, withSettings } from './limits.js';

describe('limits', () => {
  const defaults = withSettings(unlimited(), { max_cost_per_request: 0.5, token_budget_per_agent: 5_000 });

  it('are integer micro-USD and tokens', () => {
    expect(defaults.request).toEqual({ microUsd: 500_000, tokens: null });
    expect(defaults.agent).toEqual({ microUsd: null, tokens: 5_000 });
    expect(withSettings(unlimited(), { max_cost_per_day: 0.1 + 0.2 }).day.microUsd).toBe(300_000);
    expect(() => withSettings(unlimited(), { max_tokens_per_day: 0.5 })).toThrow('max_tokens_per_day');
    expect(() => withSettings(unlimited(), { max_cost_per_day: -1 })).toThrow('max_cost_per_day');
  });

  it('come from the file: a number replaces, null lifts, the rest is inherited', () => {
    const table = limitTable(defaults, {
      defaults: { max_cost_per_day: 2 },
      tenants: { acme: { max_cost_per_tenant: 10, token_budget_per_agent: null } },
    });
    expect(tenantLimits(table, 'acme')).toMatchObject({
      tenant: { microUsd: 10_000_000 },
      day: { microUsd: 2_000_000 },
      agent: { tokens: null },
      request: { microUsd: 500_000 },
    });
    expect(tenantLimits(table, 'other')).toMatchObject({ tenant: { microUsd: null }, agent: { tokens: 5_000 } });
    expect(limitTable(defaults, {}).tenants.size).toBe(0);
    const overruns = limitTable(defaults, { tenants: { acme: { allow_cost_overrun: true } } });
    expect([overruns.defaults.costOverrun, overruns.tenants.get('acme')?.costOverrun]).toEqual([false, true]);
  });
});

describe('scopes', () => {
  it('need a counter only where several calls can meet', () => {
    const scopes = { tenant_id: 't', request_id: 'c1' };
    expect(countedScopes(scopes, 'c1')).toEqual([]);
    expect(
      countedScopes({ ...scopes, request_id: 'r', agent_id: 'a', task_id: 'k' }, 'c1').map((one) => one.name),
    ).toEqual(['request:r', 'agent:a', 'task:k']);
  });

  it('are shown with a date', () => {
    expect(shownScope('day:20778')).toBe('day:2026-11-21');
    expect(shownScope('agent:day:1')).toBe('agent:day:1');
  });
});
