import type { AuditRecord } from '@toolfleet/engine';
import type { Logger } from '@toolfleet/telemetry';
import { beforeEach, expect, test } from 'vitest';
import { CallLog } from './call-log.js';

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
        toolName: 'alias',
        rawArguments: { password: 'hunter2!' },
        principal: { tenantId: 'acme', userId: 'ann', keyId: 'k1' },
        door: 'http',
      },
      ...(found ? { tool: { name: 'adder' } } : {}),
    },
    ok: true,
    durationMs: 12.3456,
    microUsd: 4_000,
    attempts: 1,
    ...more,
  }) as unknown as AuditRecord;

test('one line per call with all its fields, under the tool`s own name', () => {
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
        door: 'http',
        attempts: 1,
        provenance: 'live',
        audit: 'chained',
      },
      'call finished',
    ],
  ]);
});

test('a failure has its code and its message, without what the caller had sent', () => {
  log.finished(record({ ok: false, code: 'TOOL_ERROR', error: 'wrong password hunter2!', microUsd: 0 }));
  expect(lines[0]?.[1]).toMatchObject({ success: false, code: 'TOOL_ERROR', error: 'wrong password [argument]' });
});

test('a call of no tool is logged under the name that was asked for', () => {
  log.finished(record({ ok: false, code: 'TOOL_NOT_FOUND', error: 'no' }, false));
  expect(lines[0]?.[1]).toMatchObject({ tool_name: 'alias', code: 'TOOL_NOT_FOUND' });
});

test('a retry is a warning with tool, attempt of how many, and delay', () => {
  log.retrying({
    tool: 'adder',
    callId: 'c1',
    attempt: 1,
    maxAttempts: 3,
    delayMs: 250,
    error: 'no answer to hunter2!',
    rawArguments: { password: 'hunter2!' },
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
      'call is tried again',
    ],
  ]);
});
