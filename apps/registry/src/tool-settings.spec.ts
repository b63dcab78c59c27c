import { describe, expect, it } from 'vitest';
import type { ToolDefinition } from '@toolfleet/contracts/tool-definition';
import { applySettings, matchSettings, unusedPatternsNote, withEntrySettings } from './tool-settings.js';

const remote = (remoteName: string, more: Partial<ToolDefinition> = {}): ToolDefinition => ({
  name: `crm_${remoteName}`,
  version: '1.0.0',
  description: 'A tool',
  category: 'mcp',
  input_schema: { type: 'object' },
  binding: { kind: 'mcp', server: 'crm', transport: 'streamable-http', url: 'https://crm.example.com', remoteName },
  source: { kind: 'mcp', name: 'crm' },
  ...more,
});

describe('settings by name pattern', () => {
  const overrides = {
    'get_*': { dangerous: false, rate_limit: 10 },
    '*': { dangerous: true, rate_limit: 1 },
    get_secret: { dangerous: true },
    '*t_all': { rate_limit: 2 },
  };

  it.each([
    ['save', { dangerous: true, rate_limit: 1 }],
    ['get_one', { dangerous: false, rate_limit: 10 }],
    ['get_secret', { dangerous: true, rate_limit: 10 }],
    ['get_all', { dangerous: false, rate_limit: 2 }],
  ])('the more specific pattern wins for %s, in any order', (name, expected) => {
    const reversed = Object.fromEntries(Object.entries(overrides).toReversed());
    expect(matchSettings(overrides, [name])).toEqual(expected);
    expect(matchSettings(reversed, [name])).toEqual(expected);
  });

  it.each([
    ['delete_*', 'delete_', true],
    ['delete_*', 'undelete_x', false],
    ['a*b*c', 'a-b-b-c', true],
    ['a*b*c', 'a-c-b', false],
    ['ab*ba', 'aba', false],
    ['*', '', true],
    ['find', 'find_all', false],
    ['a.c', 'abc', false],
  ])('%s and %s: %s', (pattern, name, expected) => {
    expect(matchSettings({ [pattern]: { rate_limit: 1 } }, [name])).toEqual(expected ? { rate_limit: 1 } : {});
  });

  it('refer to the name in the fleet or at the source', () => {
    expect(withEntrySettings(remote('drop'), { overrides: { 'drop*': { dangerous: true } } }).dangerous).toBe(true);
    expect(withEntrySettings(remote('drop'), { overrides: { crm_drop: { dangerous: true } } }).dangerous).toBe(true);
    expect(withEntrySettings(remote('drop'), { overrides: { op: { dangerous: true } } }).dangerous).toBeUndefined();
  });

  it('patterns that match nothing are reported', () => {
    const given = { 'delte_*': { dangerous: true }, 'crm_*': {} };
    expect(unusedPatternsNote(given, [remote('delete_one')])).toBe('overrides match no tool: delte_*');
    expect(unusedPatternsNote({ 'crm_*': {} }, [remote('delete_one')])).toBeUndefined();
  });
});

describe('precedence', () => {
  it('overrides over the entry, the entry over hints of the server', () => {
    const tool = remote('find', { idempotent: true });
    expect(withEntrySettings(tool, { idempotent: false })).toMatchObject({ idempotent: false });
    const both = { idempotent: false, rate_limit: 5, overrides: { find: { idempotent: true } } };
    expect(withEntrySettings(tool, both)).toMatchObject({ idempotent: true, rate_limit: 5 });
  });

  it('protections that a tool declares only rise', () => {
    const declared = remote('drop', { dangerous: true, requires_auth: true });
    expect(applySettings(declared, { dangerous: false, requires_auth: false })).toMatchObject({
      dangerous: true,
      requires_auth: true,
    });
    expect(applySettings(remote('drop'), { dangerous: true })).toMatchObject({ dangerous: true });
  });

  it('a whole source cannot make results of writing methods be cached, an override can', () => {
    const put = remote('put', { cache_ttl_seconds: 0 });
    expect(withEntrySettings(put, { cache_ttl_seconds: 60 }).cache_ttl_seconds).toBe(0);
    expect(withEntrySettings(put, { overrides: { put: { cache_ttl_seconds: 60 } } }).cache_ttl_seconds).toBe(60);
  });

  it('the time limit of a tool reaches its executor', () => {
    const slow = withEntrySettings(remote('slow'), {
      timeout_seconds: 5,
      overrides: { slow: { timeout_seconds: 90 } },
    });
    expect(slow).toMatchObject({ timeout_seconds: 90, binding: { options: { timeout_seconds: 90 } } });
  });

  it('a memory limit applies to the sandbox only', () => {
    expect(applySettings(remote('find'), { memory_limit_mb: 64 }).memory_limit_mb).toBeUndefined();
    const python = { ...remote('run'), binding: { kind: 'python' } as const };
    expect(applySettings(python, { memory_limit_mb: 64 }).memory_limit_mb).toBe(64);
  });
});
