import { expect, it } from 'vitest';
import type { Principal } from '@toolfleet/contracts';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import type { DefinitionCache } from './definition-cache.js';
import { ToolInventory } from './tool-inventory.js';
import { ToolList } from './tool-list.js';

const tool = (name: string, more: Partial<RegisteredTool> = {}): RegisteredTool => ({
  name,
  version: '1.0.0',
  description: name,
  category: 'general',
  input_schema: { type: 'object' },
  binding: { kind: 'builtin', toolset: 'compute', handler: name },
  source: { kind: 'builtin', name: 'builtin.compute' },
  revision: 'r1',
  available: true,
  ...more,
});
const TOOLS = [
  tool('calculator'),
  tool('file_write', { dangerous: true }),
  tool('audited', { required_roles: ['auditor'] }),
  tool('secret_plan'),
];
const cache = {
  list: async () => ({ tools: TOOLS, version: 1, stale: false }),
  get: async (name: string) => TOOLS.find((one) => one.name === name) ?? null,
} as unknown as DefinitionCache;
const inventory = new ToolInventory(cache, new ToolList(cache));
const principal = (roles: string[], tools = ['*']): Principal => ({
  tenantId: 'acme',
  userId: 'ann',
  roles,
  tools,
  via: 'local',
});
const MEMBER = principal([], ['calculator', 'file_*', 'audited']);

it('shows a member what it may name, no dangerous tool, and why it may not call one', async () => {
  const { tools } = await inventory.list(MEMBER);
  expect(tools.map(({ name, callable }) => [name, callable])).toEqual([
    ['calculator', true],
    ['audited', false],
  ]);
  expect(tools[1]).toMatchObject({ not_callable_because: { code: 'PERMISSION_DENIED', reason: expect.any(String) } });
  for (const name of ['file_write', 'secret_plan', 'nothing'])
    await expect(inventory.one(MEMBER, name)).rejects.toMatchObject({ code: 'TOOL_NOT_FOUND' });
});

it('shows an administrator everything, dangerous tools marked as not callable', async () => {
  const { tools } = await inventory.list(principal(['admin']));
  expect(tools.map(({ name }) => name)).toEqual(TOOLS.map(({ name }) => name));
  expect(await inventory.one(principal(['admin']), 'file_write')).toMatchObject({
    dangerous: true,
    callable: false,
    not_callable_because: { code: 'TOOL_DANGEROUS' },
    kind: 'builtin',
    parameters: { type: 'object', properties: {} },
  });
});
