import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { aTool } from '@toolfleet/testing/engine-fixture';
import { describe, expect, test } from 'vitest';
import { formatTool, toolMetadata } from './format-tool.js';

describe('formatTool', () => {
  const tool = aTool({
    timeout_seconds: 30,
    cost_per_use_micro_usd: 4_000,
    annotations: { title: 'Adder', readOnlyHint: true },
    context_keys: ['project_id'],
    session_aware: true,
  });
  const schema = tool.input_schema;

  test('native, OpenAI, Anthropic, MCP', () => {
    const limits = {
      rate_limit: 0,
      timeout_seconds: 30,
      memory_limit_mb: null,
      max_request_bytes: 8 * 2 ** 20,
      max_result_bytes: 5 * 2 ** 20,
    };
    expect(formatTool(tool, 'native')).toEqual({
      name: 'adder',
      description: 'Adds two numbers',
      category: 'data',
      version: '1.0.0',
      parameters: schema,
      ...limits,
      cost_per_use: 0.004,
    });
    expect(formatTool(tool, 'openai')).toEqual({
      type: 'function',
      function: { name: 'adder', description: 'Adds two numbers', parameters: schema },
    });
    expect(formatTool(tool, 'openai-responses')).toEqual({
      type: 'function',
      name: 'adder',
      description: 'Adds two numbers',
      parameters: schema,
      strict: false,
    });
    expect(formatTool(tool, 'anthropic')).toEqual({
      name: 'adder',
      description: 'Adds two numbers',
      input_schema: schema,
    });
    expect(formatTool(tool, 'mcp')).toEqual({
      name: 'adder',
      title: 'Adder',
      description: 'Adds two numbers',
      inputSchema: schema,
      annotations: { title: 'Adder', readOnlyHint: true, idempotentHint: true },
      _meta: { 'io.toolfleet/limits': limits },
    });
  });

  test('MCP, with the page of an app at an address of the fleet', () => {
    const page = 'ui://files/page';
    const listing = { _meta: { ui: { resourceUri: page, csp: {} }, 'ui/resourceUri': page, own: page } };
    const binding = { kind: 'mcp', server: 'f', transport: 'stdio', url: '', remoteName: 'f' } as const;
    const shown = (authority?: string) =>
      formatTool(aTool({ listing, binding: { ...binding, authority } }), 'mcp')['_meta'];
    expect(shown()).toMatchObject(listing._meta);
    const address = 'ui://mcp-0123456789abcdef/files/page';
    expect(shown('mcp-0123456789abcdef')).toMatchObject({
      ui: { resourceUri: address, csp: {} },
      'ui/resourceUri': address,
      own: page,
    });
  });

  test('Gemini, with references expanded and without empty parameters', () => {
    const declaration = { name: 'adder', description: 'Adds two numbers' };
    const point = { type: 'object', properties: { x: { type: 'integer', exclusiveMinimum: 0 } }, required: ['x'] };
    const input_schema = {
      type: 'object',
      properties: { at: { $ref: '#/$defs/Point' } },
      additionalProperties: false,
      $defs: { Point: point },
    };
    expect(formatTool(aTool({ input_schema }), 'gemini')).toEqual({
      ...declaration,
      parameters: {
        type: 'object',
        properties: {
          at: { type: 'object', properties: { x: { type: 'integer', minimum: 1 } }, required: ['x'] },
        },
      },
    });
    expect(formatTool(aTool({ input_schema: {} }), 'gemini')).toEqual(declaration);
  });

  test('the strict mode of OpenAI, where it can express the schema', () => {
    const limit = { type: 'integer', default: 5 };
    const input_schema = { type: 'object', properties: { query: { type: 'string' }, limit }, required: ['query'] };
    const parameters = {
      type: 'object',
      properties: {
        query: { type: 'string' },
        limit: { type: ['integer', 'null'], description: '(default: 5)' },
      },
      required: ['query', 'limit'],
      additionalProperties: false,
    };
    const strict = { name: 'adder', description: 'Adds two numbers', parameters, strict: true };
    const searcher = aTool({ input_schema });
    expect(formatTool(searcher, 'openai-strict')).toEqual({ type: 'function', function: strict });
    expect(formatTool(searcher, 'openai-responses-strict')).toEqual({ type: 'function', ...strict });
    const free = { type: 'object', properties: { labels: { type: 'object' } } };
    expect(formatTool(aTool({ input_schema: free }), 'openai-responses-strict')).toMatchObject({
      parameters: free,
      strict: false,
    });
  });

  test('adds properties to a schema without them, because some providers require them', () => {
    expect(formatTool(aTool({ input_schema: {} }), 'anthropic').input_schema).toEqual({
      type: 'object',
      properties: {},
    });
  });

  test.each(['anthropic', 'mcp'] as const)('lists arguments under names that each provider takes: %s', (format) => {
    const sent = {
      type: 'object',
      properties: { 'filter[id]': { type: 'integer' }, b: {} },
      required: ['filter[id]'],
    };
    const { input_schema: listed = {}, inputSchema = listed } = formatTool(aTool({ input_schema: sent }), format);
    expect(inputSchema).toEqual({
      type: 'object',
      properties: { filter_id__665d001d: { type: 'integer', description: 'filter[id]' }, b: {} },
      required: ['filter_id__665d001d'],
    });
  });

  test('metadata contains every default', () => {
    const { rate_limit: _, ...undeclared } = aTool();
    expect(toolMetadata(undeclared)).toMatchObject({
      rate_limit_mode: 'reject',
      retry_policy: null,
      cache_ttl_seconds: null,
      stub_data: null,
      memory_limit_mb: null,
      dangerous: false,
      sandboxed: false,
      session_aware: false,
      requires_auth: false,
      cost_per_use: 0,
      author: null,
    });
  });

  const operation = (method: string) => ({ kind: 'openapi', method }) as unknown as RegisteredTool['binding'];
  test.each<[string, Partial<RegisteredTool>, boolean]>([
    ['a GET', { binding: operation('GET') }, false],
    ['a PUT', { binding: operation('PUT') }, true],
    ['a DELETE', { binding: operation('delete') }, true],
    ['a builtin tool that is not idempotent', { idempotent: false }, true],
    ['a builtin tool', {}, false],
    ['a builtin tool that writes', { annotations: { readOnlyHint: false } }, true],
  ])('metadata says whether %s has effects', (_, more, expected) => {
    expect(toolMetadata(aTool({ idempotent: true, ...more })).has_effects).toBe(expected);
  });
});
