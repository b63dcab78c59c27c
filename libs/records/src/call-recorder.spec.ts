import { describe, expect, it } from 'vitest';
import { ToolError, type CallRequest } from '@toolfleet/contracts';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import type { AuditRecord } from '@toolfleet/engine';
import { FakeClock } from '@toolfleet/testing';
import { CallRecorder } from './call-recorder.js';
import { RecentCalls, type StoredRecentCall } from './recent-calls.js';
import type { RecentCall } from '@toolfleet/contracts/fleet';

class Memory extends RecentCalls {
  override async erase(): Promise<number> {
    return 0;
  }

  readonly batches: RecentCall[][] = [];
  isDown = false;

  override async add(calls: readonly RecentCall[]): Promise<void> {
    if (this.isDown) throw new Error('down');
    this.batches.push([...calls]);
  }

  override async read(): Promise<StoredRecentCall[]> {
    return [];
  }
}

const tool = { name: 'calculator', binding: { kind: 'builtin' } } as unknown as RegisteredTool;

function aRecord(callId: string, tenantId: string, more: Partial<AuditRecord> = {}): AuditRecord {
  const request = {
    callId,
    toolName: 'calc',
    rawArguments: { expression: 'secret-argument' },
    principal: { tenantId, userId: 'ann' },
    context: {},
    door: 'http',
    origin: 'public',
    mode: { kind: 'run' },
  } as unknown as CallRequest;
  return {
    call: {
      request,
      tool,
      startedAt: 100,
      admittedAt: 102,
      coercions: [],
      dropped: [],
      attempts: 1,
      isUnacknowledged: false,
      waitedMs: 0,
      makeCall: () => Promise.reject(new Error('not called')),
    },
    ok: true,
    durationMs: 20,
    microUsd: 1_500,
    attempts: 1,
    provenance: 'live',
    timing: { queue_ms: 1, wait_ms: 2, execute_ms: 10 },
    ...more,
  };
}

describe('CallRecorder', () => {
  it('buffers calls and writes them together', async () => {
    const [clock, store] = [new FakeClock(), new Memory()];
    const recorder = new CallRecorder(store, clock);
    recorder.finished(aRecord('c1', 'acme'));
    recorder.finished(aRecord('c2', 'globex'));
    expect(store.batches).toEqual([]);
    clock.advance(250);
    await expect.poll(() => store.batches.length).toBe(1);
    expect(store.batches[0]).toMatchObject([
      {
        call_id: 'c1',
        tenant_id: 'acme',
        tool: 'calculator',
        kind: 'builtin',
        status: 'success',
        duration_ms: 20,
        stages: { admit_ms: 2, wait_ms: 2, queue_ms: 1, execute_ms: 10, rest_ms: 5 },
        cost_usd: 0.0015,
      },
      { call_id: 'c2', tenant_id: 'globex' },
    ]);
  });

  it('records failed attempts with their call, and the call whose tool made it', async () => {
    const [clock, store] = [new FakeClock(), new Memory()];
    const recorder = new CallRecorder(store, clock);
    recorder.retrying({
      call: {
        request: { toolName: 'calculator', rawArguments: { expression: 'secret-argument' } },
        tool: { name: 'calculator', input_schema: {} },
      },
      callId: 'c1',
      attempt: 1,
      maxAttempts: 3,
      delayMs: 250,
      error: 'no answer to secret-argument',
    });
    const nested = aRecord('c1', 'acme', { attempts: 2 });
    nested.call.request.principal = { ...nested.call.request.principal, parentCallId: 'c0' };
    recorder.finished(nested);
    recorder.finished(aRecord('c1', 'acme'));
    await recorder.flush();
    expect(store.batches[0]).toMatchObject([
      {
        parent_call_id: 'c0',
        attempts: 2,
        retried: [{ attempt: 1, error: 'no answer to [argument]', delay_ms: 250 }],
      },
      { attempts: 1, retried: undefined },
    ]);
  });

  it('redacts arguments and records the code of a refusal', async () => {
    const [clock, store] = [new FakeClock(), new Memory()];
    const recorder = new CallRecorder(store, clock);
    const { code, message } = new ToolError('ARGUMENTS_INVALID', { message: 'Cannot read secret-argument' });
    const { timing: _timing, ...refused } = aRecord('c1', 'acme', { ok: false, code, error: message });
    recorder.finished({ ...refused, call: { ...refused.call, admittedAt: undefined as never } });
    await recorder.flush();
    expect(store.batches[0]).toMatchObject([
      {
        status: 'refused',
        code: 'ARGUMENTS_INVALID',
        error: 'Cannot read [argument]',
        stages: { admit_ms: 20, execute_ms: 0, rest_ms: 0 },
      },
    ]);
    expect(JSON.stringify(store.batches)).not.toContain('secret-argument');
  });

  it('limits the calls of one tenant so that others are recorded too', async () => {
    const [clock, store] = [new FakeClock(), new Memory()];
    const recorder = new CallRecorder(store, clock);
    for (let index = 0; index < 10_000; index += 1) recorder.finished(aRecord(`a${index}`, 'acme'));
    recorder.finished(aRecord('g1', 'globex'));
    await recorder.flush();
    const [batch] = store.batches;
    expect(batch?.filter(({ tenant_id: tenant }) => tenant === 'acme')).toHaveLength(20);
    expect(batch?.some(({ call_id: id }) => id === 'g1')).toBe(true);
  });

  it('continues after the store was unavailable', async () => {
    const [clock, store] = [new FakeClock(), new Memory()];
    const recorder = new CallRecorder(store, clock);
    store.isDown = true;
    recorder.finished(aRecord('lost', 'acme'));
    await recorder.flush();
    store.isDown = false;
    recorder.finished(aRecord('kept', 'acme'));
    await recorder.flush();
    expect(store.batches.flat().map(({ call_id: id }) => id)).toEqual(['kept']);
  });
});
