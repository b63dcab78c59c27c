import 'reflect-metadata';
import type { Principal } from '@toolfleet/contracts';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import type { NatsClient } from '@toolfleet/transport';
import { FakeClock } from '@toolfleet/testing';
import { aPrincipal } from '@toolfleet/testing/engine-fixture';
import { describe, expect, it } from 'vitest';
import { CallAccess } from '@toolfleet/access';
import { UsageController } from './usage.controller.js';

const figures = { limit_micro_usd: 1_000_000, spent_micro_usd: 500_000, held_micro_usd: 0 };
const SCOPES = ['request:r', 'agent:day:1', 'task:t', 'day:2026-11-21', 'tenant'];
const limits = SCOPES.map((scope) => ({ scope, ...figures, limit_tokens: null, spent_tokens: 0, held_tokens: 0 }));
const nats = {
  request: async (subject: string) => {
    expect(subject).toBe(SUBJECTS.budgetLimits);
    return { limits };
  },
} as unknown as NatsClient;
const controller = new UsageController(
  nats,
  new CallAccess({ list: () => Promise.reject(new Error('not asked')) }),
  new FakeClock(0),
);

const caller = (more: Partial<Principal> = {}): Principal => aPrincipal({ keyId: 'key1', ...more });

describe('budgets', () => {
  it.each<[string, Principal, string[]]>([
    ['a key of every tool', caller(), SCOPES],
    ['a key whose globs allow every tool', caller({ tools: ['calc*', '**'] }), SCOPES],
    ['a key of some tools', caller({ tools: ['calc*'] }), SCOPES.slice(0, 3)],
    ['an administrator of the tenant', caller({ tools: ['calc*'], roles: ['admin'] }), SCOPES],
    ['an operator', caller({ tools: ['calc*'], roles: ['operator'] }), SCOPES],
    [
      'a delegated call of an administrator',
      caller({ via: 'delegation', tools: ['calc*'], roles: ['admin'] }),
      SCOPES.slice(0, 3),
    ],
  ])('show %s the scopes it spends from and may see', async (_, who, scopes) => {
    const { budgets } = await controller.budgets(who, {
      path: {},
      query: { request_id: 'r', agent_id: 'day:1', task_id: 't' },
      body: undefined,
    });
    expect(budgets.map(({ scope }) => scope)).toEqual(scopes);
    expect(budgets[0]).toMatchObject({ limit_usd: 1, spent_usd: 0.5, held_usd: 0 });
  });
});
