import type { Principal } from '@toolfleet/contracts';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { describe, expect, it } from 'vitest';
import type { DefinitionCache } from './definition-cache.js';
import { ToolList } from './tool-list.js';

const tool = (name: string, more: Partial<RegisteredTool> = {}) =>
  ({ name, category: 'data', ...more }) as RegisteredTool;
const TOOLS = [
  tool('app_refresh', { listing: { _meta: { ui: { visibility: ['app'] } } } }),
  tool('calculator', { listing: { _meta: { ui: { visibility: ['model', 'app'] } } } }),
  tool('execute_python', { aliases: ['python_executor'], category: 'code', tags: ['data'] }),
  tool('file_write', { dangerous: true }),
  tool('new_one', { quarantine: { reason: 'changed' } as never }),
  tool('text_process'),
];
const list = new ToolList({
  list: async () => ({ tools: TOOLS, version: 1, stale: false }),
  get: async (name: string) => TOOLS.find((one) => one.name === name || one.aliases?.includes(name)) ?? null,
} as unknown as DefinitionCache);
const caller = (...tools: string[]): Principal => ({ tenantId: 't', userId: 'u', roles: [], tools, via: 'api_key' });
const names = async (principal: Principal, filter = {}) =>
  (await list.page(principal, filter)).tools.map(({ name }) => name);

describe('the list', () => {
  it('shows what the caller may use: no dangerous tool, none in quarantine, aliases count', async () => {
    expect(await names(caller('*'))).toEqual(['calculator', 'execute_python', 'text_process']);
    expect(await names(caller('python_*'))).toEqual(['execute_python']);
    expect(await names(caller('file_*', 'new_*'))).toEqual([]);
    // Two lists of globs that look the same when joined.
    expect(await names(caller('calculator text_process'))).toEqual([]);
    expect(await names(caller('calculator', 'text_process'))).toEqual(['calculator', 'text_process']);
  });

  it('shows tools of the pages of apps only where those are asked for', async () => {
    const shown = async (forApps: boolean) => (await list.all(caller('app_*', 'calc*'), 'public', forApps)).tools;
    expect((await shown(true)).map(({ name }) => name)).toEqual(['app_refresh', 'calculator']);
    expect((await shown(false)).map(({ name }) => name)).toEqual(['calculator']);
    expect((await list.one(caller('*'), 'app_refresh')).name).toBe('app_refresh');
  });

  it('filters by category or tag', async () => {
    expect(await names(caller('*'), { category: 'data' })).toEqual(['calculator', 'execute_python', 'text_process']);
    expect(await names(caller('*'), { category: 'code' })).toEqual(['execute_python']);
  });

  it('continues after a cursor, even if its tool is gone, and refuses invalid cursors', async () => {
    const { next } = await list.page(caller('*'), { limit: 2 });
    expect(await names(caller('*'), { limit: 2, cursor: next })).toEqual(['text_process']);
    const gone = Buffer.from('deleted_tool').toString('base64url');
    expect(await names(caller('*'), { cursor: gone })).toEqual(['execute_python', 'text_process']);
    for (const cursor of ['garbage', '', '%%', `${gone}=`]) {
      await expect(list.page(caller('*'), { cursor })).rejects.toMatchObject({ code: 'REQUEST_INVALID' });
    }
  });
});

describe('one tool', () => {
  it('is found by name and alias where the caller may use it, else it is missing or refused', async () => {
    expect((await list.one(caller('python_executor'), 'python_executor')).name).toBe('execute_python');
    await expect(list.one(caller('calc*'), 'execute_python')).rejects.toMatchObject({ code: 'TOOL_NOT_FOUND' });
    await expect(list.one(caller('*'), 'file_write')).rejects.toMatchObject({ code: 'TOOL_DANGEROUS' });
    await expect(list.one(caller('*'), 'new_one')).rejects.toMatchObject({ code: 'TOOL_QUARANTINED' });
  });
});
