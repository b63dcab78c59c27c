import type { JsonObject } from '@toolfleet/contracts';
import type { McpBinding } from '@toolfleet/contracts/tool-definition';
import { describe, expect, it } from 'vitest';
import { toFeatureResponse } from './feature-request.js';
import { toFleetBlock } from './fleet-addresses.js';

const AUTHORITY = 'mcp-0123456789abcdef';
const binding = (authority?: string): McpBinding => ({
  kind: 'mcp',
  server: 's',
  transport: 'streamable-http',
  url: 'https://s.example',
  remoteName: 's',
  authority,
});

describe('addresses in results', () => {
  it.each<[JsonObject, JsonObject]>([
    [
      { type: 'resource_link', uri: 'docs://a', name: 'a' },
      { type: 'resource_link', uri: `docs://${AUTHORITY}/a`, name: 'a' },
    ],
    [
      { type: 'resource', resource: { uri: 'docs://a', text: 't' } },
      { type: 'resource', resource: { uri: `docs://${AUTHORITY}/a`, text: 't' } },
    ],
    [
      { type: 'resource', resource: { uri: `docs://mcp-fedcba9876543210/a` } },
      { type: 'resource', resource: { uri: `docs://${AUTHORITY}/mcp-fedcba9876543210/a` } },
    ],
  ])('%j becomes readable', (block, readable) => expect(toFleetBlock(block, AUTHORITY)).toEqual(readable));

  it.each<JsonObject>([
    { type: 'text', text: 'docs://a' },
    { type: 'image', uri: 'docs://a' },
    { type: 'resource_link', uri: 'https://example.com/a' },
    { type: 'resource', resource: { uri: 'http://example.com/a' } },
    { type: 'resource', resource: 'docs://a' },
    { type: 'resource_link', uri: 7 },
  ])('%j stays', (block) => expect(toFleetBlock(block, AUTHORITY)).toEqual(block));

  it('stay without an authority', () => {
    const block = { type: 'resource_link', uri: 'docs://a' };
    expect(toFleetBlock(block, undefined)).toEqual(block);
  });
});

describe('a result', () => {
  it('keeps all fields but those of its exchange', () => {
    const contents = [{ uri: 'docs://a', blob: 'AA==', _meta: { own: 1 } }];
    const result = { resultType: 'complete', ttlMs: 5, cacheScope: 'public', contents, extra: null };
    const _meta = { 'io.modelcontextprotocol/serverInfo': {}, own: true };
    const { ok, output } = toFeatureResponse({ ...result, _meta }, binding(AUTHORITY));
    expect(ok).toBe(true);
    expect(output).toEqual({
      ttlMs: 5,
      extra: null,
      _meta: { own: true },
      contents: [{ ...contents[0], uri: `docs://${AUTHORITY}/a` }],
    });
  });

  it('that is nested too deeply is refused', () => {
    let deep: JsonObject = {};
    for (let level = 0; level < 1_000; level += 1) deep = { deep };
    expect(toFeatureResponse({ messages: [deep] }, binding())).toMatchObject({ failure: { code: 'RESULT_TOO_LARGE' } });
  });
});
