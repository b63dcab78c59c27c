import type { JsonObject } from '@toolfleet/contracts';
import type { DiscoverReply, RemoteTool } from '@toolfleet/contracts/execution';
import { describe, expect, it } from 'vitest';
import { checkDefinition } from '../check-definition.js';
import { toFunctionDefinition, toServerDefinitions, serverNotes } from './mcp-definitions.js';

const found = (...tools: Partial<RemoteTool>[]): DiscoverReply => ({
  server: 'files',
  protocol_version: '2026-07-28',
  prior: { kind: 'legacy' },
  ttl_ms: 0,
  tools: tools.map((tool) => ({ name: 'x', description: 'd', input_schema: { type: 'object' }, ...tool })),
});
const entry = { name: 'files', url: 'https://mcp.example.com/mcp' };

describe('registered names', () => {
  it('do not depend on other tools or servers', () => {
    const one = toServerDefinitions(entry, found({ name: 'a' }))[0]?.name;
    expect(toServerDefinitions(entry, found({ name: 'b' }, { name: 'a' }))[1]?.name).toBe(one);
  });
});

describe('definitions of a server', () => {
  it('carry what mcp-executor needs, with variables unexpanded', () => {
    const secret = {
      ...entry,
      headers: { Authorization: 'Bearer ${TOKEN}' },
      timeout_seconds: 7,
      cost_per_use: 0.002,
      rate_limit: 5,
    };
    const [definition] = toServerDefinitions(secret, found({ name: 'read file', title: 'Read' }));
    expect(definition).toMatchObject({
      aliases: [],
      category: 'mcp',
      idempotent: false,
      cost_per_use_micro_usd: 2_000,
      rate_limit: 5,
      timeout_seconds: 7,
      annotations: { title: 'Read' },
      binding: {
        kind: 'mcp',
        server: 'files',
        transport: 'streamable-http',
        remoteName: 'read file',
        options: { headers: { Authorization: 'Bearer ${TOKEN}' }, timeout_seconds: 7, prior: { kind: 'legacy' } },
      },
    });
  });

  it('give attempts the longest time of the entry, and the executor both', () => {
    const [definition] = toServerDefinitions({ ...entry, timeout_seconds: 7, max_seconds: 600 }, found({}));
    expect(definition).toMatchObject({
      timeout_seconds: 600,
      binding: { options: { timeout_seconds: 7, max_seconds: 600 } },
    });
  });

  it('keep icons and _meta, unless they are too large or unsafe, which is reported', () => {
    const icons = [{ src: 'https://mcp.example.com/icon.png' }];
    const meta = { ui: { resourceUri: 'ui://files/page' }, 'ui/resourceUri': 'ui://files/page' };
    const large = { text: 'x'.repeat(20_000) };
    const listed = found(
      { name: 'page', listing: { icons, _meta: meta } },
      { name: 'odd', listing: { icons: [...icons, { src: 'javascript:alert(1)' }], _meta: large } },
    );
    expect(toServerDefinitions(entry, listed).map(({ listing }) => listing)).toEqual([
      { icons, _meta: meta },
      undefined,
    ]);
    expect(serverNotes(entry, listed)).toEqual([
      'files_odd: its icons is not shown; it must be safe and have at most 16384 characters',
      'files_odd: its _meta is not shown; it must be safe and have at most 16384 characters',
    ]);
  });

  it('keep only tools of the allow-list', () => {
    const names = toServerDefinitions({ ...entry, tools: ['a'] }, found({ name: 'a' }, { name: 'b' })).map(
      ({ name }) => name,
    );
    expect(names).toEqual(['files_a']);
  });

  it('believe hints of trusted servers only (!3)', () => {
    const hinted = found({ annotations: { readOnlyHint: true, idempotentHint: true } });
    expect(toServerDefinitions(entry, hinted)[0]?.idempotent).toBe(false);
    expect(toServerDefinitions({ ...entry, trusted: true }, hinted)[0]?.idempotent).toBe(true);
    expect(toServerDefinitions({ ...entry, trusted: true }, found({}))[0]?.idempotent).toBe(false);
  });

  it('accept schemas as the common SDKs write them', () => {
    const schema: JsonObject = {
      $schema: 'http://json-schema.org/draft-07/schema#',
      type: 'object',
      properties: { a: { $ref: '#/definitions/A' }, h: { type: 'string', 'x-mcp-header': 'H' } },
      definitions: { A: { type: 'array', items: { $ref: '#/definitions/A' } } },
      additionalProperties: false,
    };
    const [definition] = toServerDefinitions(entry, found({ input_schema: schema }));
    expect(definition?.input_schema).toEqual({
      type: 'object',
      properties: { a: { $ref: '#/$defs/A' }, h: { type: 'string', 'x-mcp-header': 'H' } },
      $defs: { A: { type: 'array', items: { $ref: '#/$defs/A' } } },
      additionalProperties: false,
    });
    expect(definition?.binding).toMatchObject({ options: { header_schema: schema } });
    expect(() => checkDefinition(definition, { kind: 'mcp', name: 'files' }, true)).not.toThrow();
  });
});

describe('a remote schema with a pattern that cannot be checked', () => {
  const pattern = String.raw`^[\w]{1,2048}$`;
  const input_schema = { type: 'object', properties: { id: { type: 'string', pattern } } };

  it('registers without the pattern, and is reported', () => {
    const listed = found({ name: 'find', input_schema }, { name: 'other' });
    const [definition] = toServerDefinitions(entry, listed);
    expect(() => checkDefinition(definition, { kind: 'mcp', name: 'files' }, true)).not.toThrow();
    expect(definition?.input_schema).toEqual({ type: 'object', properties: { id: { type: 'string' } } });
    expect(serverNotes(entry, listed)).toEqual([
      `files_find: the pattern ${JSON.stringify(pattern)} cannot be checked and is dropped`,
    ]);
  });

  it('is not reported for a tool that the entry does not allow', () => {
    expect(serverNotes({ ...entry, tools: ['other'] }, found({ name: 'find', input_schema }))).toEqual([]);
  });
});

describe('entries', () => {
  it('of plain functions become one tool, with enum and cost', () => {
    const definition = toFunctionDefinition({
      name: 'geocode',
      url: 'https://b.example/mcp',
      func_name: 'geo',
      cost_per_use: 0.001,
      parameters: [
        { name: 'address', type: 'string', required: true, description: 'Where', enum: ['a', 'b'] },
        { name: 'zoom', type: 'float', default: 1.5 },
        { name: 'odd', type: 'thing' },
      ],
    });
    expect(definition).toMatchObject({
      name: 'geocode',
      category: 'mcp',
      description: 'MCP tool geocode',
      cost_per_use_micro_usd: 1_000,
      binding: { transport: 'function-args', remoteName: 'geo' },
      input_schema: {
        type: 'object',
        required: ['address'],
        properties: {
          address: { type: 'string', description: 'Where', enum: ['a', 'b'] },
          zoom: { type: 'number', default: 1.5 },
          odd: { type: 'object' },
        },
      },
    });
    const whole = toFunctionDefinition({ name: 'f', url: 'https://b.example', func_name: 'f' });
    expect(whole.binding).toMatchObject({ options: { whole_args: true } });
    expect(whole.input_schema).toMatchObject({ properties: { args: { type: 'object' } } });
    expect(() => checkDefinition(definition, { kind: 'mcp', name: 'geocode' }, true)).not.toThrow();
  });
});
