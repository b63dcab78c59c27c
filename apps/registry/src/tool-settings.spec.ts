import { describe, expect, it } from 'vitest';
import type { JsonObject } from '@toolfleet/contracts';
import type { ToolDefinition } from '@toolfleet/contracts/tool-definition';
import { TOOL_SETTINGS } from '@toolfleet/contracts/tool-settings';
import {
  applySettings,
  matchSettings,
  readToolSettings,
  unusedPatternsNote,
  withEntrySettings,
} from './tool-settings.js';
import { readMcpEntry } from './sources/mcp-entry.js';
import { readOpenApiEntry } from './sources/openapi-entry.js';

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

/** A valid value of each setting, and one that is not. */
const VALUES: Record<keyof typeof TOOL_SETTINGS, [valid: unknown, invalid: unknown]> = {
  dangerous: [true, 'yes'],
  requires_auth: [true, 1],
  session_aware: [true, 'true'],
  idempotent: [false, 0],
  retry_policy: [{ kind: 'custom', max_attempts: 2, base_delay_ms: 10, multiplier: 2 }, { kind: 'always' }],
  stub_data: [{ rate: 1 }, undefined],
  rate_limit: [0, -1],
  rate_limit_mode: ['wait', 'queue'],
  cache_ttl_seconds: [0, 1.5],
  select: ['$.items[*].id', 'items['],
  timeout_seconds: [0.5, 0],
  memory_limit_mb: [64, 0],
};
const ENTRIES: [string, (fields: object) => { [field: string]: unknown } | string][] = [
  ['an MCP server', (fields) => readMcpEntry('crm', entry({ url: 'https://a.example' }, fields), false) as never],
  [
    'a function',
    (fields) => readMcpEntry('crm', entry({ url: 'https://a.example', func_name: 'f' }, fields), true) as never,
  ],
  [
    'an OpenAPI document',
    (fields) => readOpenApiEntry('crm', entry({ spec_url: 'https://a.example' }, fields)) as never,
  ],
  ['tool_settings', (fields) => readToolSettings({ tool_settings: { '*': fields as JsonObject } }) as never],
];
const entry = (base: object, fields: object) => ({ ...base, ...fields }) as JsonObject;

describe.each(ENTRIES)('settings of %s', (kind, read) => {
  it.each(Object.entries(VALUES))('%s', (name, [valid, invalid]) => {
    const given = read({ [name]: valid });
    if (name === 'memory_limit_mb' && kind !== 'tool_settings')
      return expect(given).toContain('cannot set memory_limit_mb');
    expect(given).toMatchObject(kind === 'tool_settings' ? { '*': { [name]: valid } } : { [name]: valid });
    if (invalid === undefined) return;
    expect(read({ [name]: invalid })).toContain('has a wrong value for ');
    expect(read({ [name]: invalid })).toContain(name);
  });

  it('an unknown field gets a suggestion', () => {
    expect(read({ dangerus: true })).toContain('has an unknown field dangerus; did you mean dangerous?');
  });

  it('overrides', () => {
    if (kind === 'tool_settings') return;
    const overrides = { 'delete_*': { dangerous: true, rate_limit: null }, 'get.one': {} };
    expect(read({ overrides })).toMatchObject({ overrides });
    expect(read({ overrides: ['delete_*'] })).toBe(
      'has a wrong value for overrides: must map name patterns to settings',
    );
    expect(read({ overrides: { 'a b': {} } })).toContain('has an invalid pattern overrides["a b"]');
    expect(read({ overrides: { a: true } })).toContain('overrides["a"]: must be a mapping of settings');
    expect(read({ overrides: { a: { danger: true } } })).toContain('has an unknown field danger');
    expect(read({ overrides: { a: { rate_limit: 'x' } } })).toContain(
      'has a wrong value for overrides["a"].rate_limit',
    );
    expect(read({ overrides: { a: { memory_limit_mb: 64 } } })).toContain('has an unknown field memory_limit_mb');
  });
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
