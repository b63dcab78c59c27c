/** The search of a gateway: what it keeps in the history, and what it takes from it. */
import type { Principal } from '@toolfleet/contracts';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { expect, it } from 'vitest';
import { matching } from './tool-list.js';
import { ToolSearch } from './tool-search.js';
import { ToolsetView } from './toolset-view.js';

const tool = (name: string, description: string, revision = '1') =>
  ({ name, description, revision, category: 'data', input_schema: {} }) as RegisteredTool;
const caller: Principal = { tenantId: 't', userId: 'u', roles: [], tools: ['*'], via: 'api_key' };

it('keeps the tools that a filtered search shows, and no others', async () => {
  const kept: (readonly string[])[] = [];
  const history = {
    called: () => new Map(),
    searched: (_principal: Principal, _task: string, found: readonly string[]) => void kept.push(found),
  };
  const tools = ['invoice_write', 'invoice_send', 'invoice_list', 'invoice_drop'].map((name, index) => ({
    ...tool(name, 'Works on an invoice'),
    category: index === 0 ? 'hidden' : 'data',
  }));
  const list = { all: async () => ({ tools, version: 1, stale: false }) };
  const found = await new ToolSearch(list, history).rank(caller, 'invoice', 2, matching({ category: 'data' }));
  expect(found.map(({ category }) => category)).toEqual(['data', 'data']);
  expect(kept).toEqual([found.map(({ name }) => name)]);
});

it('learns and uses the original names of tools that a toolset renames', async () => {
  const kept: (readonly string[])[] = [];
  const history = {
    called: () => new Map([['crm_search', 1]]),
    searched: (_principal: Principal, _task: string, found: readonly string[]) => void kept.push(found),
  };
  const view = new ToolsetView({
    name: 'support',
    tenant: null,
    version: 1,
    // A tool of the list has the original name of another as its new name.
    spec: { overrides: { crm_search: { name: 'find_customer' }, shop_search: { name: 'crm_search' } } },
    approved: { crm_search: '1', shop_search: '1' },
    quarantined: [],
  });
  const tools = view.list([tool('crm_search', 'Finds a customer'), tool('shop_search', 'Finds a customer')]);
  expect(tools.map(({ name }) => name)).toEqual(['crm_search', 'find_customer']);
  const list = { all: async () => ({ tools, version: 1, stale: false }) };
  const found = await new ToolSearch(list, history).rank(caller, 'unknown words', 2);
  expect(found.map(({ name }) => name)).toEqual(['find_customer']);
  expect(kept).toEqual([['crm_search']]);
});
