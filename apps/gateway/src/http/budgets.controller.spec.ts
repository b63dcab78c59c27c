import 'reflect-metadata';
import type { Principal } from '@toolfleet/contracts';
import type { BudgetRemove, LimitState } from '@toolfleet/contracts/budget';
import type { RouteInput } from '@toolfleet/contracts/resources';
import type { NatsClient } from '@toolfleet/transport';
import { FakeClock } from '@toolfleet/testing';
import { aPrincipal } from '@toolfleet/testing/engine-fixture';
import { beforeEach, describe, expect, it } from 'vitest';
import type { ApiKeys } from '@toolfleet/access';
import { BudgetsController } from './budgets.controller.js';

const figures = { limit_micro_usd: 1_000_000, spent_micro_usd: 500_000, held_micro_usd: 0 };
const SCOPES = ['request:r', 'agent:day:1', 'task:t', 'user/total:ann', 'day:2026-11-21', 'tenant', 'tenant/total'];
const OWN = SCOPES.slice(0, 4);
const limits: LimitState[] = SCOPES.map((scope) => {
  const [, subject, id = ''] = /^(user|tenant)\/total:?(.*)$/.exec(scope) ?? [];
  const budget = subject && { subject: subject as 'user' | 'tenant', id, period: 'total' as const };
  return { scope, ...(budget && { budget }), ...figures, limit_tokens: null, spent_tokens: 0, held_tokens: 0 };
});
let sent: [string, unknown][] = [];
const nats = {
  ask: async (subject: string, message: unknown) => {
    sent.push([subject, message]);
    if (subject === 'budget.remove') return { removed: (message as BudgetRemove).id === 'ann' };
    return subject === 'budget.set' ? { budget: limits[3] } : { limits };
  },
} as unknown as NatsClient;
const keys = { list: async (tenantId: string) => [{ id: `${tenantId}-key` }] } as unknown as ApiKeys;
const controller = new BudgetsController(nats, keys, new FakeClock(Date.UTC(2026, 10, 21)));
beforeEach(() => (sent = []));

const caller = (more: Partial<Principal> = {}): Principal => aPrincipal({ keyId: 'key1', ...more });

describe('budgets', () => {
  it.each<[string, Principal, string[]]>([
    ['a key of every tool', caller(), OWN],
    ['a key of some tools', caller({ tools: ['calc*'] }), OWN],
    ['an administrator of the tenant', caller({ tools: ['calc*'], roles: ['admin'] }), SCOPES],
    ['an operator', caller({ tools: ['calc*'], roles: ['operator'] }), SCOPES],
    ['a delegated call of an administrator', caller({ via: 'delegation', tools: ['calc*'], roles: ['admin'] }), OWN],
  ])('show %s the scopes it spends from and may see', async (_, who, scopes) => {
    const { budgets } = await controller.list(who, {
      path: {},
      query: { request_id: 'r', agent_id: 'day:1', task_id: 't' },
      body: undefined,
    });
    expect(budgets.map(({ scope }) => scope)).toEqual(scopes);
    expect(budgets[0]).toMatchObject({ limit_usd: 1, spent_usd: 0.5, held_usd: 0 });
  });

  const admin = caller({ roles: ['admin'] });
  const operator = caller({ tenantId: 'operator', roles: ['operator'] });
  const put = (who: Principal, body: RouteInput<'PUT /api/v1/budgets'>['body']) =>
    controller.set(who, { path: {}, query: undefined, body });

  it('are set for users and keys of the tenant, and by operators for tenants', async () => {
    const name = { subject: 'user', id: 'ann', tenant_id: admin.tenantId, period: 'month' } as const;
    expect(await put(admin, { subject: 'user', id: 'ann', limit_usd: 0.1 + 0.2 })).toMatchObject({
      scope: 'user/total:ann',
      subject: 'user',
      subject_id: 'ann',
      limit_usd: 1,
    });
    await put(operator, { subject: 'tenant', period: 'day', limit_tokens: 5, tenant_id: 'acme' });
    await put(operator, { subject: 'key', id: 'acme-key', limit_usd: 1, tenant_id: 'acme' });
    expect(sent.map(([, message]) => message)).toEqual([
      { ...name, limit_micro_usd: 300_000, limit_tokens: null, changed_by: admin.userId },
      {
        ...{ subject: 'tenant', id: '', tenant_id: 'acme', period: 'day' },
        ...{ limit_micro_usd: null, limit_tokens: 5, changed_by: operator.userId },
      },
      expect.objectContaining({ subject: 'key', id: 'acme-key' }),
    ]);
    const remove = (id: string) =>
      controller.remove(admin, { path: {}, query: { subject: 'user', id }, body: undefined });
    await remove('ann');
    expect(sent.at(-1)).toEqual(['budget.remove', name]);
    await expect(remove('bob')).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });

  it.each<[string, Principal, Parameters<typeof put>[1], string]>([
    ['without a limit', admin, { subject: 'user', id: 'ann' }, 'limit_usd, limit_tokens'],
    ['of a user without an id', admin, { subject: 'user', limit_usd: 1 }, 'the id of the user'],
    ['of a tenant with an id', operator, { subject: 'tenant', id: 'x', limit_usd: 1 }, 'no id'],
    ['of an unknown key', admin, { subject: 'key', id: 'k9', limit_usd: 1 }, "no key 'k9'"],
    ['of the own tenant', admin, { subject: 'tenant', limit_usd: 1 }, 'operator'],
    ['of another tenant', admin, { subject: 'user', id: 'a', limit_usd: 1, tenant_id: 'other' }, 'operator'],
  ])('are refused %s', async (_, who, body, message) => {
    await expect(put(who, body)).rejects.toThrow(message);
    expect(sent).toEqual([]);
  });
});
