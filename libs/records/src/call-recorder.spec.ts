import { describe, expect, it } from 'vitest';
import { ToolError, type CallRequest } from '@toolfleet/contracts';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import type { AuditRecord } from '@toolfleet/engine';
import { FakeClock } from '@toolfleet/testing';
import { CallBodies } from './call-bodies.js';
import { CallRecorder } from './call-recorder.js';
import type { FinishedCall, RecordsAppend } from '@toolfleet/contracts/records';

/** The service as its gateway sees it: stores each batch once, and may fail before or after it has stored one. */
class Memory {
  readonly stored = new Map<string, FinishedCall[]>();
  away: 'before' | 'after' | undefined;
  /** Resolves deliveries that wait for it. */
  hanging: Promise<void> | undefined;
  /** Of the call that it cannot store. */
  refused: string | undefined;

  async append({ batch_id: id, calls }: RecordsAppend) {
    if (this.away === 'before') throw new Error('away');
    await this.hanging;
    if (calls.some((call) => call.call_id === this.refused || (this.refused === 'with a body' && call.body)))
      throw new ToolError('REQUEST_INVALID');
    const stored = !this.stored.has(id);
    this.stored.set(id, calls);
    if (this.away === 'after') throw new Error('the answer was lost');
    return { stored };
  }

  get batches(): FinishedCall[][] {
    return [...this.stored.values()];
  }
}

let dropped = 0;
function recorderFor(records: Memory, clock: FakeClock, maxSpooled = 10_000): CallRecorder {
  dropped = 0;
  return new CallRecorder({ records, clock, maxSpooled, onDropped: (calls) => void (dropped += calls) });
}

const tool = {
  name: 'calculator',
  revision: 'r1',
  binding: { kind: 'builtin' },
  source: { kind: 'builtin', name: 'builtin' },
} as unknown as RegisteredTool;

function aRecord(callId: string, tenantId: string, more: Partial<AuditRecord> = {}): AuditRecord {
  const request = {
    callId,
    target: { toolName: 'calc' },
    input: { rawArguments: { expression: 'secret-argument' } },
    principal: { tenantId, userId: 'ann', via: 'api_key', roles: ['dev'] },
    context: {},
    entry_point: 'http',
    origin: 'public',
    reuse: {},
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
    const recorder = recorderFor(store, clock);
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
        micro_usd: 1_500,
        source: 'builtin/builtin',
        outcomes: { transport: 'delivered', protocol: 'ok', tool: 'ok' },
      },
      { call_id: 'c2', tenant_id: 'globex' },
    ]);
  });

  it('records the program that made a call, and what the policy decided', async () => {
    const [clock, store] = [new FakeClock(), new Memory()];
    const recorder = recorderFor(store, clock);
    const { call, ...record } = aRecord('c1', 'acme');
    const policy = { decision: 'denied', rules: ['tools.rego:8'] } as const;
    recorder.finished({ ...record, call: { ...call, policy, request: { ...call.request, client: 'curl/8.5.0' } } });
    await recorder.flush();
    expect(store.batches[0]).toMatchObject([
      { client: 'curl/8.5.0', policy: 'denied', policy_rules: ['tools.rego:8'] },
    ]);
  });

  it('records failed attempts with their call, and the call whose tool made it', async () => {
    const [clock, store] = [new FakeClock(), new Memory()];
    const recorder = recorderFor(store, clock);
    recorder.retrying({
      call: {
        request: { target: { toolName: 'calculator' }, input: { rawArguments: { expression: 'secret-argument' } } },
        tool: { name: 'calculator', input_schema: {} },
      },
      callId: 'c1',
      attempt: 2,
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
    const recorder = recorderFor(store, clock);
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

  it('sends calls again under the same id while the service is unavailable, and none twice', async () => {
    const [clock, store] = [new FakeClock(), new Memory()];
    const recorder = recorderFor(store, clock);
    store.away = 'before';
    recorder.finished(aRecord('c1', 'acme'));
    await recorder.flush();
    store.away = 'after';
    recorder.finished(aRecord('c2', 'acme'));
    clock.advance(1_000);
    await expect.poll(() => store.batches.length).toBe(1);
    store.away = undefined;
    clock.advance(1_000);
    await expect.poll(() => store.batches.map((batch) => batch.map(({ call_id: id }) => id))).toEqual([['c1'], ['c2']]);
    expect(dropped).toBe(0);
  });

  it('keeps calls up to its bound, and counts those that it does not keep', async () => {
    const [clock, store] = [new FakeClock(), new Memory()];
    const recorder = recorderFor(store, clock, 1_200);
    store.away = 'before';
    for (let index = 0; index < 1_000; index += 1) recorder.finished(aRecord(`a${index}`, 'acme'));
    await recorder.flush();
    for (let index = 1_000; index < 1_250; index += 1) recorder.finished(aRecord(`a${index}`, 'acme'));
    expect(dropped).toBe(50);
    store.away = undefined;
    await recorder.flush();
    expect(store.batches.map((batch) => batch.length)).toEqual([500, 500, 200]);
    recorder.finished(aRecord('later', 'acme'));
    await recorder.flush();
    expect(store.batches.at(-1)).toMatchObject([{ call_id: 'later' }]);
  });

  it('drops the one call that cannot be stored, and those that waited for too long', async () => {
    const [clock, store] = [new FakeClock(), new Memory()];
    const recorder = recorderFor(store, clock);
    store.refused = 'a300';
    for (let index = 0; index < 1_000; index += 1) recorder.finished(aRecord(`a${index}`, 'acme'));
    await recorder.flush();
    const ids = () => store.batches.flat().map((call) => call.call_id);
    const others = Array.from({ length: 1_000 }, (_, index) => `a${index}`).filter((id) => id !== 'a300');
    expect([ids(), dropped]).toEqual([others, 1]);
    store.away = 'before';
    recorder.finished(aRecord('old', 'acme'));
    clock.advance(21 * 3_600_000);
    store.away = undefined;
    await expect.poll(() => clock.advance(1_000) ?? dropped).toBe(2);
    expect(ids()).not.toContain('old');
  });

  it('holds no ended calls while a batch is on its way', async () => {
    const [clock, store] = [new FakeClock(), new Memory()];
    const recorder = recorderFor(store, clock);
    const { promise, resolve } = Promise.withResolvers<void>();
    store.hanging = promise;
    recorder.finished(aRecord('c1', 'acme'));
    clock.advance(250);
    const record = aRecord('c2', 'acme');
    recorder.finished(record);
    clock.advance(250);
    // The row is there already: what is read later is not recorded.
    record.microUsd = 7;
    resolve();
    await expect.poll(() => store.batches.flat()).toMatchObject([{ call_id: 'c1' }, { micro_usd: 1_500 }]);
  });

  it('sends arguments and results within the size of a message, and the row alone where they are refused or too many', async () => {
    const [clock, store] = [new FakeClock(), new Memory()];
    let bodiesDropped = 0;
    const recorder = new CallRecorder({
      records: store,
      clock,
      maxSpooled: 10_000,
      onDropped: (calls) => void (dropped += calls),
      bodies: new CallBodies({ keep: 'all', max_bytes: 262_144 }),
      onBodyDropped: () => void (bodiesDropped += 1),
    });
    dropped = 0;
    const large = (id: string) => {
      const record = aRecord(id, 'acme');
      record.call.request.input.rawArguments = { text: 'x'.repeat(100_000) };
      recorder.finished(record);
    };
    for (let index = 0; index < 9; index += 1) large(`a${index}`);
    await recorder.flush();
    expect(store.batches.map((batch) => batch.length)).toEqual([3, 3, 3]);
    expect(store.batches[0]![0]).toMatchObject({
      body: { arguments: { text: expect.stringMatching(/^x{100000}$/) } },
      body_bytes: expect.any(Number),
    });
    store.refused = 'with a body';
    large('refused');
    await recorder.flush();
    expect([store.batches.at(-1), dropped, bodiesDropped]).toEqual([
      [expect.not.objectContaining({ body: expect.anything() })],
      0,
      1,
    ]);
    store.refused = undefined;
    store.away = 'before';
    for (let index = 0; index < 400; index += 1) large(`b${index}`);
    await recorder.flush();
    expect(bodiesDropped).toBeGreaterThan(1);
    const kept = 401 - bodiesDropped;
    store.away = undefined;
    await recorder.flush();
    const rows = store.batches.flat().filter((row) => row.call_id.startsWith('b'));
    expect([rows.length, rows.filter((row) => row.body).length, dropped]).toEqual([400, kept, 0]);
    // The room is free again.
    for (let index = 0; index < 10; index += 1) large(`c${index}`);
    await recorder.flush();
    expect(bodiesDropped).toBe(401 - kept);
  });

  it('sends what it has before the records are read, and keeps no reader waiting', async () => {
    const [clock, store] = [new FakeClock(), new Memory()];
    const recorder = recorderFor(store, clock);
    recorder.finished(aRecord('c1', 'acme'));
    await recorder.sendNow();
    expect(store.batches.flat()).toMatchObject([{ call_id: 'c1' }]);
    store.away = 'before';
    recorder.finished(aRecord('c2', 'acme'));
    await recorder.sendNow();
    store.away = undefined;
    const { promise, resolve } = Promise.withResolvers<void>();
    store.hanging = promise;
    const reader = recorder.sendNow();
    clock.advance(2_000);
    await reader;
    resolve();
    await expect.poll(() => store.batches.flat()).toMatchObject([{ call_id: 'c1' }, { call_id: 'c2' }]);
  });

  it('gives up on a service that is unavailable when the process ends', async () => {
    const [clock, store] = [new FakeClock(), new Memory()];
    const recorder = recorderFor(store, clock);
    recorder.finished(aRecord('c1', 'acme'));
    await recorder.drain(1_000);
    expect(store.batches).toHaveLength(1);
    store.away = 'before';
    recorder.finished(aRecord('c2', 'acme'));
    const ended = recorder.drain(1_000);
    await expect.poll(() => clock.advance(500) ?? dropped).toBe(1);
    await ended;
  });
});
