import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { folder, routes, run, seen, serveGateway } from '../fleetctl.fixture.js';

serveGateway();

const RESULT = {
  rule: 'policy',
  from: '2026-10-22T12:00:00.000Z',
  to: '2026-11-21T12:00:00.000Z',
  is_partial: false,
  ...{ calls: 31_400, not_reached: 0, refused: 2, still_refused: 0, admitted: 1, asked: 0, undecidable: 7 },
  reasons: [{ reason: 'admins only', calls: 2 }],
  unrecorded: [{ fact: 'user.roles', calls: 7 }],
  examples: [
    { call_id: 'c1', tenant_id: 'acme', tool: 'write', user_id: 'ann', verdict: 'refused', reason: 'admins only' },
  ],
  notes: ['Tools have today’s definitions'],
  took_ms: 12,
};

it('shows what a rule would have done', async () => {
  routes.set('POST /api/v1/rules/test', () => ({ status: 200, body: RESULT }));
  const policies = join(folder, 'policies');
  mkdirSync(policies);
  writeFileSync(join(policies, 'tools.rego'), 'package tools');
  writeFileSync(join(policies, 'cases.json'), '[]');
  const { out } = await run(['rules', 'test', 'policy', policies, '--from', '30d', '--read-arguments']);
  expect(out).toContain('would have refused 2 of 31,400 calls of the last 30d: admins only (2)\n');
  expect(out).toContain('7 not decidable: user.roles (7)\n');
  expect(out).toMatch(/refused\s+c1\s+write\s+ann\s+admins only/);
  expect(seen.at(-1)?.body).toMatchObject({
    policy: { files: [{ name: 'tools.rego', text: 'package tools' }] },
    read_arguments: true,
  });
  await run(['rules', 'test', 'limit', 'calculator', '30', '--from', '2026-01-01', '--tenant', 'acme']);
  expect(seen.at(-1)?.body).toEqual({
    rate_limit: { tool: 'calculator', per_minute: 30 },
    from: '2026-01-01',
    tenant_id: 'acme',
  });
  await run(['rules', 'test', 'toolset', 'support', '{"read_only": true}', '--user', 'ann']);
  expect(seen.at(-1)?.body).toMatchObject({ toolset: { name: 'support', spec: { read_only: true } }, user_id: 'ann' });
  await run(['rules', 'test', 'budget', 'tenant', 'acme', '--usd', '20', '--period', 'day']);
  expect(seen.at(-1)?.body).toMatchObject({
    budget: { subject: 'tenant', limit_usd: 20, period: 'day' },
    tenant_id: 'acme',
  });
});

it.each([
  '',
  'test',
  'test policy',
  'test limit sum',
  'test limit sum many',
  'test toolset a',
  'test budget user',
  'test x',
  'show',
])('"%s" is a usage error and asks for nothing', async (words) => {
  expect((await run(['rules', ...words.split(' ')])).code).toBe(2);
  expect(seen).toEqual([]);
});
