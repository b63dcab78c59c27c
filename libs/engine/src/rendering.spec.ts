import type { CallRecord, CallResult } from '@toolfleet/contracts';
import { SIZES } from '@toolfleet/contracts/subjects';
import { aTool } from '@toolfleet/testing/engine-fixture';
import { describe, expect, test } from 'vitest';
import { callRecord, renderAnswers } from './batch.js';
import { callBody } from './result.js';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { formatTool, toolMetadata } from './format-tool.js';

const result = (parts: Partial<CallResult> = {}): CallResult => ({
  ok: true,
  output: { n: 1 },
  text: 'one',
  provenance: 'live',
  usage: { tokens: 0, microUsd: 4_000 },
  metadata: { source: 'searchapi' },
  timing: { queue_ms: 1.4, wait_ms: 0, execute_ms: 20.6 },
  attempts: 1,
  ...parts,
});

describe('callBody', () => {
  test('a success', () => {
    expect(callBody('c', result(), 123.4)).toEqual({
      success: true,
      output: { n: 1 },
      text: 'one',
      error: null,
      metadata: {
        source: 'searchapi',
        provenance: 'live',
        attempts: 1,
        timing: { queue_ms: 1, wait_ms: 0, execute_ms: 21 },
      },
      execution_time_ms: 123,
      usage: { tokens: 2_000, cost_usd: 0.004 },
      call_id: 'c',
    });
  });

  test('contains rich content up to a limit; that of a batch shares the limit', () => {
    const picture = { type: 'image', mimeType: 'image/png', data: 'AA==' };
    expect(callBody('c', result({ content: [picture] }), 1).content).toEqual([picture]);
    const large = { ...picture, data: 'A'.repeat(SIZES.toolResult) };
    const body = callBody('c', result({ content: [picture, large] }), 1);
    expect(body).not.toHaveProperty('content');
    expect(body.metadata).toMatchObject({ content_omitted: { blocks: 2, limit: SIZES.toolResult } });
    const item = { id: 'i', name: 'x', arguments: {}, sent: {}, source: {}, fields: {} };
    const half = { ...picture, data: 'A'.repeat(SIZES.toolResult / 2) };
    const answers = [picture, half, half, picture].map((block) => ({
      item,
      callId: 'c',
      outcome: result({ content: [block] }),
      durationMs: 1,
    }));
    const records = renderAnswers(answers, callRecord) as CallRecord[];
    expect(records.map(({ content }) => content)).toEqual([[picture], [half], undefined, [picture]]);
    const texts = records.map((record) => JSON.parse(record.result));
    expect(texts.map(({ metadata, content }) => [metadata.content_omitted?.blocks, content])).toEqual([
      [undefined, undefined],
      [undefined, undefined],
      [1, undefined],
      [undefined, undefined],
    ]);
  });

  test('a failure has its code, a suggestion and whether a retry may help', () => {
    const failure = {
      code: 'ATTEMPT_TIMED_OUT',
      errorType: 'timeout',
      message: "Tool 'x' timed out after 10ms",
      retryable: true,
      retryAfterMs: 500,
    } as const;
    const body = callBody('c', result({ ok: false, failure, usage: { tokens: 0, microUsd: 0 } }), 10);
    expect(body).toMatchObject({
      success: false,
      error: "Tool 'x' timed out after 10ms",
      usage: { tokens: 0, cost_usd: 0 },
      metadata: {
        code: 'ATTEMPT_TIMED_OUT',
        error_type: 'timeout',
        retryable: true,
        retry_after_ms: 500,
        suggestion: 'Retry later or simplify the request.',
      },
    });
  });

  test.each<[Partial<CallResult>, number]>([
    [{ usage: { tokens: 0, microUsd: 0 } }, 100],
    [{ usage: { tokens: 321, microUsd: 0 } }, 321],
    [{ usage: { tokens: 0, microUsd: 0 }, provenance: 'cache', attempts: 0 }, 0],
    [{ usage: { tokens: 0, microUsd: 0 }, provenance: 'stub' }, 0],
  ])('tokens of %j are %i', (parts, tokens) => {
    expect(callBody('c', result(parts), 1).usage.tokens).toBe(tokens);
  });

  test('truncates text at 6,000 characters', () => {
    expect(callBody('c', result({ text: 'x'.repeat(7_000) }), 1).text).toHaveLength(6_000);
  });
});

describe('formatTool', () => {
  const tool = aTool({
    cost_per_use_micro_usd: 4_000,
    annotations: { title: 'Adder', readOnlyHint: true },
    context_keys: ['project_id'],
    session_aware: true,
  });
  const schema = tool.input_schema;

  test('native, OpenAI, Anthropic, MCP', () => {
    expect(formatTool(tool, 'native')).toEqual({
      name: 'adder',
      description: 'Adds two numbers',
      category: 'data',
      version: '1.0.0',
      parameters: schema,
      timeout_seconds: 30,
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

  test('metadata contains every default', () => {
    const { rate_limit: _, ...undeclared } = aTool();
    expect(toolMetadata(undeclared)).toMatchObject({
      rate_limit: 60,
      rate_limit_mode: 'reject',
      retry_policy: null,
      cache_ttl_seconds: null,
      stub_data: null,
      timeout_seconds: 30,
      memory_limit_mb: 128,
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
