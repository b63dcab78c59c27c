import { describe, expect, it } from 'vitest';
import type { JsonObject } from '@toolfleet/contracts';
import { TOOL_SETTINGS } from '@toolfleet/contracts/tool-settings';
import { readMcpEntry, readOpenApiEntry } from './entries.js';
import { faultLine, type Fault } from './faults.js';
import { FleetFileError, parseFleetFiles } from './read-fleet-file.js';

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
  results: ['tenant', 'everyone'],
  timeout_seconds: [0.5, 0],
  memory_limit_mb: [64, 0],
};

type Read = (fields: object) => object | string;
const lines = (read: object): object | string =>
  Array.isArray(read) ? read.map((one) => faultLine(one as Fault)).join('; ') : read;
const entry = (base: object, fields: object) => ({ ...base, ...fields }) as JsonObject;
const ENTRIES: [string, Read][] = [
  ['an MCP server', (fields) => lines(readMcpEntry('crm', entry({ url: 'https://a.example' }, fields), false))],
  [
    'a function',
    (fields) => lines(readMcpEntry('crm', entry({ url: 'https://a.example', func_name: 'f' }, fields), true)),
  ],
  ['an OpenAPI document', (fields) => lines(readOpenApiEntry('crm', entry({ spec_url: 'https://a.example' }, fields)))],
  [
    'tool_settings',
    (fields) => {
      try {
        const text = JSON.stringify({ tool_settings: { '*': fields } });
        return parseFleetFiles([{ file: 'fleet.yaml', text }]).tool_settings['*'] ?? {};
      } catch (error) {
        return (error as FleetFileError).message;
      }
    },
  ],
];

describe.each(ENTRIES)('settings of %s', (kind, read) => {
  it.each(Object.entries(VALUES))('%s', (name, [valid, invalid]) => {
    const given = read({ [name]: valid });
    if (name === 'memory_limit_mb' && kind !== 'tool_settings')
      return expect(given).toMatch(/memory_limit_mb is (an unknown key|for local servers only)/);
    expect(given).toMatchObject({ [name]: valid });
    if (invalid === undefined) return;
    expect(read({ [name]: invalid })).toMatch(new RegExp(`${name} (must be|is not a selection)`));
  });

  it('an unknown key gets a suggestion, also without a value', () => {
    for (const value of [true, null])
      expect(read({ dangerus: value })).toContain('dangerus is an unknown key; did you mean dangerous?');
  });

  it('a key without a value is not set', () => {
    expect(read({ rate_limit: null, retry_policy: null })).not.toHaveProperty('rate_limit');
  });

  it('overrides', () => {
    if (kind === 'tool_settings') return;
    const overrides = { 'delete_*': { dangerous: true, rate_limit: null }, 'get.one': {} };
    expect(read({ overrides })).toMatchObject({ overrides: { 'delete_*': { dangerous: true }, 'get.one': {} } });
    expect(read({ overrides: ['delete_*'] })).toBe('overrides must be a mapping');
    expect(read({ overrides: { 'a b': {} } })).toContain('overrides has the name "a b", which must be a tool name');
    expect(read({ overrides: { a: true } })).toContain('overrides.a must be a mapping');
    expect(read({ overrides: { a: { danger: true } } })).toContain('overrides.a.danger is an unknown key');
    expect(read({ overrides: { a: { rate_limit: 'x' } } })).toContain('overrides.a.rate_limit must be an integer');
    expect(read({ overrides: { a: { memory_limit_mb: 64 } } })).toContain('memory_limit_mb is an unknown key');
  });
});
