import { ToolError, type Json, type JsonObject } from '@toolfleet/contracts';
import type { ExecMessage } from '@toolfleet/contracts/execution';
import { TOOL_NAME_PATTERN } from '@toolfleet/contracts/tool-definition';
import { SystemClock } from '@toolfleet/resilience';
import { compileSchema } from '@toolfleet/bounded-schema';
import { describe, expect, it } from 'vitest';
import { cutText, defineTool, ok } from './builtin-tool.js';
import { toToolDefinition, MANIFEST, getToolset, selectTools } from './manifest.js';
import { ToolRunner } from './tool-runner.js';

const SOURCE = { kind: 'builtin', name: 'builtin.compute' } as const;
const NO_FIGURES = { rateLimits: {}, costsMicroUsd: {} };

describe.each(MANIFEST.map((tool) => [tool.metadata.name, tool] as const))('%s', (_name, tool) => {
  const { inputSchema, inputExamples = [], name, description } = tool.metadata;

  it('has a schema that models can follow', () => {
    expect(name).toMatch(TOOL_NAME_PATTERN);
    expect(description.length).toBeGreaterThan(20);
    const properties = Object.entries((inputSchema['properties'] ?? {}) as Record<string, JsonObject>);
    expect(properties.length).toBeGreaterThan(0);
    for (const [property, schema] of properties)
      expect(String(schema['description'] ?? '').length, property).toBeGreaterThan(5);
    expect(JSON.stringify(inputSchema)).not.toMatch(/project_id|_model|tenant/);
  });

  it('has examples and defaults that its schema accepts', () => {
    const compiled = compileSchema(inputSchema);
    expect(inputExamples.length).toBeGreaterThan(0);
    for (const example of inputExamples) expect(compiled.errors(example)).toEqual([]);
    for (const [property, schema] of Object.entries(inputSchema['properties'] as Record<string, JsonObject>)) {
      if (schema['default'] !== undefined)
        expect(compileSchema(schema).errors(schema['default'] as Json), property).toEqual([]);
    }
  });

  it('is idempotent unless it has effects', () => {
    const effects = ['file_write', 'file_edit', 'file_delete', 'multi_agent'];
    expect(tool.metadata.idempotent ?? false).toBe(!effects.includes(name));
  });

  it('tells clients whether it changes something', () => {
    const effects = ['file_write', 'file_edit', 'file_mkdir', 'file_delete', 'multi_agent'];
    const { readOnlyHint, destructiveHint, openWorldHint } = tool.metadata.annotations ?? {};
    expect(readOnlyHint).toBe(!effects.includes(name));
    expect(destructiveHint).toBe(effects.includes(name) && name !== 'file_mkdir');
    expect(openWorldHint).toBe(['web_search', 'fetch_page', 'crawl_batch', 'multi_agent'].includes(name));
  });
});

describe('definitions', () => {
  it('contain the metadata under the published names, with the overrides of the operator', () => {
    const [calculator] = selectTools(['compute']);
    if (!calculator) throw new Error('no calculator');
    expect(toToolDefinition(calculator, SOURCE, NO_FIGURES)).toMatchObject({
      name: 'calculator',
      version: '1.0.0',
      category: 'data',
      tags: ['math', 'compute'],
      rate_limit: 2_000,
      idempotent: true,
      timeout_seconds: 5,
      binding: { kind: 'builtin', toolset: 'compute', handler: 'calculator' },
      source: SOURCE,
    });
    const figures = { rateLimits: { calculator: 0 }, costsMicroUsd: { calculator: 7 } };
    expect(toToolDefinition(calculator, SOURCE, figures)).toMatchObject({ rate_limit: 0, cost_per_use_micro_usd: 7 });
    expect(toToolDefinition(calculator, SOURCE, NO_FIGURES)).not.toHaveProperty('cost_per_use_micro_usd');
  });

  it('are split by toolset', () => {
    expect(new Set(MANIFEST.map(getToolset))).toEqual(new Set(['compute', 'files', 'web', 'agent']));
    expect(selectTools(['agent']).map((tool) => tool.metadata.name)).toEqual(['multi_agent']);
  });
});

describe('ToolRunner', () => {
  const clock = new SystemClock();
  const tool = (handler: () => never) =>
    defineTool({ name: 't', description: 'd', category: 'c', inputSchema: { type: 'object' }, handler });
  const message: ExecMessage = {
    call_id: 'c',
    attempt: 1,
    fence: 1,
    journalled: false,
    tool: 't',
    revision: 'r',
    binding: { kind: 'builtin', toolset: 'compute', handler: 't' },
    arguments: {},
    context: { tenant_id: 'acme' },
  };
  const run = (thrown: unknown, reason?: unknown, faults: unknown[] = []) => {
    const throwing = tool(() => {
      throw thrown;
    });
    const caller = new AbortController();
    const attempt = new ToolRunner([throwing], {}, clock, (_name, error) => {
      faults.push(error);
      return undefined;
    }).run(message, {
      signal: caller.signal,
      deadlineAt: clock.now() + 1_000,
    });
    if (reason !== undefined) caller.abort(reason);
    return attempt;
  };

  it('returns the error of a tool with its details and retry delay', async () => {
    const reply = await run(
      new ToolError('UPSTREAM_ERROR', { message: 'busy', details: { status: 429 }, retryAfterMs: 500 }),
    );
    expect(reply).toMatchObject({
      ok: false,
      output: null,
      text: 'busy',
      retry_after_ms: 500,
      failure: { code: 'UPSTREAM_ERROR', errorType: 'upstream_error', retryable: false, details: { status: 429 } },
    });
  });

  it('hides the text of an unexpected exception, which may contain secrets, and reports it to the operator', async () => {
    const faults: unknown[] = [];
    const reply = await run(new Error('password=hunter2 in /etc/x'), undefined, faults);
    expect(reply.failure).toMatchObject({ code: 'EXECUTION_FAILED', message: 't failed unexpectedly' });
    expect(JSON.stringify(reply)).not.toContain('hunter2');
    expect(faults).toHaveLength(1);
  });

  it('refuses tools whose services are missing, and cuts the text for the model', () => {
    const needy = selectTools(['web']);
    expect(() => new ToolRunner(needy, {}, clock)).toThrow(/needs pages/);
    expect(cutText('x'.repeat(7_000))).toHaveLength(6_000);
    expect(ok(1, '😀'.repeat(4_000)).text.isWellFormed()).toBe(true);
  });

  it('reports a passed deadline as a time-out of the attempt, and a cancellation as such', async () => {
    const waiting = defineTool({
      name: 't',
      description: 'd',
      category: 'c',
      inputSchema: { type: 'object' },
      handler: (_args, { signal }) =>
        new Promise<never>((_resolve, reject) =>
          signal.addEventListener('abort', () => reject(signal.reason as Error)),
        ),
    });
    for (const [reason, code] of [
      [new ToolError('DEADLINE_EXCEEDED'), 'ATTEMPT_TIMED_OUT'],
      [new ToolError('CANCELLED'), 'CANCELLED'],
      [new DOMException('x', 'TimeoutError'), 'ATTEMPT_TIMED_OUT'],
    ] as const) {
      const caller = new AbortController();
      const pending = new ToolRunner([waiting], {}, clock).run(message, {
        signal: caller.signal,
        deadlineAt: clock.now() + 1_000,
      });
      caller.abort(reason);
      expect((await pending).failure?.code).toBe(code);
    }
  });
});
