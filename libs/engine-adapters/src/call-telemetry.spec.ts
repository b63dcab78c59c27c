import { ToolError, type ErrorCode } from '@toolfleet/contracts';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { toCallStatus, type AuditRecord } from '@toolfleet/engine';
import { createMetrics, type Logger } from '@toolfleet/telemetry';
import { FakeClock } from '@toolfleet/testing';
import { beforeEach, expect, test } from 'vitest';
import { CallLog, CallMetrics, limiterFallback } from './call-telemetry.js';
import { ToolLabels, type ToolLabelling } from './tool-labels.js';

const lines: [level: string, fields: Record<string, unknown>, message: string][] = [];
const log = new CallLog({
  info: (fields: Record<string, unknown>, message: string) => lines.push(['info', fields, message]),
  warn: (fields: Record<string, unknown>, message: string) => lines.push(['warn', fields, message]),
} as unknown as Logger);
beforeEach(() => void lines.splice(0));

const record = (more: Partial<AuditRecord> = {}, found = true) =>
  ({
    call: {
      request: {
        callId: 'c1',
        target: { toolName: 'an_alias' },
        input: { rawArguments: { password: 'hunter2!' } },
        principal: { tenantId: 'acme', userId: 'ann', keyId: 'k1' },
        context: {},
        entryPoint: 'http',
        reuse: {},
        mode: { kind: 'run' },
      },
      ...(found ? { tool: { name: 'adder', input_schema: { properties: { password: {} } } } } : {}),
    },
    ok: true,
    durationMs: 12.3456,
    microUsd: 4_000,
    attempts: 1,
    ...more,
  }) as unknown as AuditRecord;

test('logs one line per call with all its fields, under the name of the definition', () => {
  log.finished(record({ provenance: 'live' }));
  expect(lines).toEqual([
    [
      'info',
      {
        tool_name: 'adder',
        duration_ms: 12.346,
        cost_usd: 0.004,
        success: true,
        error: null,
        call_id: 'c1',
        tenant_id: 'acme',
        user_id: 'ann',
        key_id: 'k1',
        entry_point: 'http',
        attempts: 1,
        provenance: 'live',
        audit: 'chained',
      },
      'call finished',
    ],
  ]);
});

test('logs the code and the message of a failure without the arguments', () => {
  log.finished(record({ ok: false, code: 'TOOL_ERROR', error: 'wrong password hunter2!', microUsd: 0 }));
  expect(lines[0]?.[1]).toMatchObject({ success: false, code: 'TOOL_ERROR', error: 'wrong password [argument]' });
});

test('logs a call of an unknown tool with the requested name', () => {
  log.finished(record({ ok: false, code: 'TOOL_NOT_FOUND', error: "Tool 'an_alias' not found" }, false));
  expect(lines[0]?.[1]).toMatchObject({
    tool_name: 'an_alias',
    code: 'TOOL_NOT_FOUND',
    error: "Tool 'an_alias' not found",
  });
});

test('logs a retry as a warning with tool, attempt, maximum and delay', () => {
  log.retrying({
    call: {
      request: { target: { toolName: 'adder' }, input: { rawArguments: { password: 'hunter2!' } } },
      tool: { name: 'adder', input_schema: {} },
    },
    callId: 'c1',
    attempt: 1,
    maxAttempts: 3,
    delayMs: 250,
    error: 'no answer to hunter2!',
  });
  expect(lines).toEqual([
    [
      'warn',
      {
        tool_name: 'adder',
        call_id: 'c1',
        attempt: 1,
        max_attempts: 3,
        delay_ms: 250,
        error: 'no answer to [argument]',
      },
      'retrying call',
    ],
  ]);
});

test.each<[string, ErrorCode, AbortSignal, string]>([
  ['a cancelled call', 'CANCELLED', AbortSignal.abort(), 'cancelled'],
  ['a cancelled call that may have taken effect', 'OUTCOME_UNKNOWN', AbortSignal.abort(), 'cancelled'],
  [
    'a call whose worker stopped after it began',
    'OUTCOME_UNKNOWN',
    AbortSignal.abort(new ToolError('SERVICE_UNAVAILABLE')),
    'system_error',
  ],
  ['a call whose executor was lost', 'OUTCOME_UNKNOWN', new AbortController().signal, 'system_error'],
  ['a tool that failed just before', 'TOOL_ERROR', AbortSignal.abort(), 'tool_error'],
])('%s has its own status', (_, code, signal, status) => {
  const { call } = record();
  expect(toCallStatus({ ok: false, code, call: { ...call, request: { ...call.request, signal } } })).toBe(status);
});

test.each([
  ['less than the tool has', 5, true, 'refused'],
  ['more than the tool has', 600_000, true, 'system_error'],
  ['which passed before the tool was found', 5, false, 'refused'],
  ['of the fleet', undefined, true, 'system_error'],
  ['of the fleet, which passed before the tool was found', undefined, false, 'system_error'],
])('a deadline of the caller, %s', (_, timeoutMs, isFound, status) => {
  const { call } = record();
  const request = { ...call.request, limits: { ...call.request.limits, timeoutMs } };
  const tool = isFound ? { ...call.tool!, timeout_seconds: 30 } : undefined;
  expect(toCallStatus({ ok: false, code: 'DEADLINE_EXCEEDED', call: { ...call, tool, request } })).toBe(status);
});

test('the limiter fallback metric is 1 while limits are decided locally, and 0 again later', async () => {
  const metrics = createMetrics({ version: '1.2.3', revision: 'abc' });
  const clock = new FakeClock();
  const local = limiterFallback(metrics, clock);
  const shown = async () => /^toolfleet_limiter_fallback (\d)$/m.exec(await metrics.scrape())?.[1];
  expect(await shown()).toBe('0');
  local();
  expect(await shown()).toBe('1');
  clock.advance(16_000);
  expect(await shown()).toBe('0');
});

test.each([
  ['BREAKER_OPEN', false, 'refused'],
  ['BREAKER_OPEN', true, 'system_error'],
  ['ATTEMPT_TIMED_OUT', false, 'tool_error'],
  ['ATTEMPT_TIMED_OUT', true, 'system_error'],
  ['EXECUTOR_UNAVAILABLE', true, 'system_error'],
  ['UPSTREAM_ERROR', false, 'tool_error'],
] as const)('%s with the executor at fault %s counts as %s', (code, isExecutorFault, status) => {
  expect(toCallStatus(record({ ok: false, code, isExecutorFault }))).toBe(status);
});

const crmTool = (name: string) =>
  ({ name, source: { kind: 'mcp', name: 'crm@acme' }, binding: { kind: 'mcp' } }) as unknown as RegisteredTool;

/** Series that successful calls of 30 tools with a price make. */
async function seriesOf(by: ToolLabelling, tools: number): Promise<{ perTool: number; labels: string[] }> {
  const metrics = createMetrics({ version: '0', revision: '0' }, {});
  const meter = new CallMetrics(metrics, new ToolLabels(by));
  for (let tool = 0; tool < tools; tool += 1) {
    const finished = record();
    meter.finished({ ...finished, call: { ...finished.call, tool: crmTool(`t${tool}`) } });
  }
  const found = (await metrics.scrape()).match(/^(shannon|gen_ai)_\w+\{.*tool_name="[^"]*".*$/gm) ?? [];
  const labels = [...new Set(found.map((line) => /tool_name="([^"]*)"/.exec(line)![1]!))];
  return { perTool: found.length / labels.length, labels };
}

test('a tool takes 36 series, 19 of our own; settings take them per source or per executor, and their number is bounded', async () => {
  expect(await seriesOf('tool', 30)).toMatchObject({ perTool: 36, labels: { length: 30 } });
  const many = await seriesOf('tool', 2_010);
  expect(many).toMatchObject({ perTool: 36, labels: { length: 2_001 } });
  expect(many.labels).toContain('other');
  expect(await seriesOf('source', 30)).toEqual({ perTool: 36, labels: ['mcp.crm'] });
  expect(await seriesOf('executor', 30)).toEqual({ perTool: 36, labels: ['mcp-executor'] });
});

test('shows the breakers of tools, once they have changed', async () => {
  const metrics = createMetrics({ version: '0', revision: '0' }, {});
  const meter = new CallMetrics(metrics, new ToolLabels('source'));
  for (const name of ['one', 'two']) meter.cacheLookup(crmTool(name), 'hit');
  const shown = async () => /^shannon_circuit_breaker_state\{(.*)\} (\d)$/m.exec(await metrics.scrape())?.slice(1);
  meter.breakerChanged('one', 'open');
  meter.breakerChanged('two', 'half_open');
  expect(await shown()).toEqual(['tool_name="mcp.crm"', '2']);
  meter.breakerChanged('one', 'closed');
  expect(await shown()).toEqual(['tool_name="mcp.crm"', '1']);
  meter.breakerChanged('two', 'closed');
  expect(await shown()).toEqual(['tool_name="mcp.crm"', '0']);
});

test('counts retries by kind of executor, and lookups and fallbacks by tool', async () => {
  const metrics = createMetrics({ version: '0', revision: '0' }, {});
  const meter = new CallMetrics(metrics, new ToolLabels('tool'));
  const tool = crmTool('adder');
  meter.retried(tool);
  meter.cacheLookup(tool, 'hit');
  meter.fellBack(tool, 'stub_data');
  const text = await metrics.scrape();
  expect(text).toContain('toolfleet_retries_total{executor="mcp",reason="attempt_failed"} 1');
  expect(text).toContain('toolfleet_cache_lookups_total{tool_name="adder",outcome="hit"} 1');
  expect(text).toContain('toolfleet_fallbacks_total{tool_name="adder",kind="stub_data"} 1');
});

test('samples successful calls of idempotent tools only', () => {
  const none = new CallLog({ info: (_: object, message: string) => lines.push(['info', {}, message]) } as never, 0);
  const call = (tool: object, request: object = {}, more: object = {}) => {
    const made = record(more);
    Object.assign(made.call, { tool: { name: 'adder', ...tool }, request: { ...made.call.request, ...request } });
    none.finished(made);
  };
  call({ idempotent: true });
  expect(lines).toEqual([]);
  call({ idempotent: false });
  call({ idempotent: true }, { mode: { kind: 'dry' } });
  call({ idempotent: true }, {}, { ok: false, code: 'TOOL_ERROR' });
  expect(lines.map(([, , message]) => message)).toEqual(['call finished', 'dry run finished', 'call finished']);
});
