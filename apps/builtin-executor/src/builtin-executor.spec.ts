import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ExecMessage, ExecResponse } from '@toolfleet/contracts/execution';
import type { DefinitionRegister, DefinitionRegisterReply } from '@toolfleet/contracts/registry';
import { builtinSubject, registerSubject, SUBJECTS } from '@toolfleet/contracts/subjects';
import { SystemClock } from '@toolfleet/resilience';
import { eventually, startNats, type NatsServer } from '@toolfleet/testing';
import { NatsClient } from '@toolfleet/transport';
import { loadConfig, type LifecycleComponent, ServiceFaults } from '@toolfleet/service';
import { buildExecutor } from '@toolfleet/service/executor';
import { createLogger, createMetrics } from '@toolfleet/telemetry';
import { builtinExecutorConfig } from './builtin-executor.config.js';
import { builtinExecutor } from './wiring.js';

const ACCEPT: DefinitionRegisterReply = {
  registered: [],
  added: [],
  changed: [],
  removed: [],
  refused: [],
  quarantined: [],
};

describe('builtin-executor over NATS', () => {
  let server: NatsServer;
  let caller: NatsClient;
  let parts: LifecycleComponent[];
  const announced: DefinitionRegister[] = [];

  beforeAll(async () => {
    server = await startNats();
    caller = await NatsClient.connect({ url: server.url, name: 'spec' });
    caller.link.subscribe(registerSubject('compute'), (message) => {
      announced.push(JSON.parse(Buffer.from(message.data).toString()) as DefinitionRegister);
      caller.publish(message.reply, ACCEPT);
    });
    const { settings } = loadConfig(builtinExecutorConfig, {
      NATS_URL: server.url,
      BUILTIN_TOOLSETS: 'compute',
      BUILTIN_COSTS_MICRO_USD: 'calculator=1',
      CALCULATOR_RATE_LIMIT: '5000',
      BUILTIN_RATE_LIMITS: 'json_process=6000',
    });
    const clock = new SystemClock();
    parts = await buildExecutor(builtinExecutor, settings, {
      service: 'builtin-executor',
      logger: createLogger({ service: 'builtin-executor', level: 'silent', environment: 'test' }),
      clock,
      metrics: createMetrics({ version: '0', revision: '0' }, {}),
      draining: new AbortController().signal,
      faults: new ServiceFaults(new SystemClock()),
      announce: () => {},
      onSecretChange: () => {},
    });
    for (const part of parts) await part.start?.();
  });

  afterAll(async () => {
    for (const part of parts.toReversed()) await part.drain?.();
    for (const part of parts.toReversed()) await part.stop?.();
    await caller.close();
    await server.stop();
  });

  const message = (over: Partial<ExecMessage> = {}): ExecMessage => ({
    call_id: 'call_1',
    attempt: 1,
    fence: 1,
    journalled: false,
    tool: 'calculator',
    revision: 'r',
    binding: { kind: 'builtin', toolset: 'compute', handler: 'calculator' },
    arguments: { expression: '6 * 7' },
    context: { tenant_id: 'acme' },
    ...over,
  });
  const execute = (over: Partial<ExecMessage> = {}) =>
    caller.request<ExecResponse>(builtinSubject('compute'), message(over));

  it('runs a tool', async () => {
    expect(await execute()).toMatchObject({
      ok: true,
      output: { result: 42 },
      text: '42',
      execute_ms: expect.any(Number),
    });
  });

  it('reports errors of a tool in-band', async () => {
    expect(await execute({ arguments: { expression: '1 / 0' } })).toMatchObject({
      ok: false,
      output: null,
      failure: { code: 'TOOL_ERROR', errorType: 'execution_error', retryable: false, details: { position: 3 } },
    });
  });

  it('says that it does not serve a tool', async () => {
    const binding = { kind: 'builtin', toolset: 'compute', handler: 'nothing' } as const;
    expect(await execute({ tool: 'nothing', binding })).toMatchObject({
      ok: false,
      failure: { code: 'EXECUTOR_UNAVAILABLE' },
    });
  });

  it('runs journalled calls of repeatable tools only, without a journal', async () => {
    expect(await execute({ journalled: true })).toMatchObject({ ok: true });
    const binding = { kind: 'builtin', toolset: 'compute', handler: 'unknown' } as const;
    await expect(execute({ journalled: true, binding })).rejects.toMatchObject({
      code: 'EXECUTOR_UNAVAILABLE',
      details: { reason: 'no_journal' },
    });
  });

  it('announces its tools, and again when the registry starts', async () => {
    await eventually('an announcement', () => announced.length > 0);
    const [first] = announced as [DefinitionRegister];
    expect(first).toMatchObject({
      source: { kind: 'builtin', name: 'builtin.compute' },
      replace: true,
      ttl_ms: 30_000,
    });
    const calculator = first.definitions.find((definition) => definition.name === 'calculator');
    expect(calculator).toMatchObject({
      rate_limit: 5000,
      cost_per_use_micro_usd: 1,
      idempotent: true,
      category: 'data',
    });
    expect(first.definitions.find(({ name }) => name === 'json_process')?.rate_limit).toBe(6_000);
    const before = announced.length;
    caller.publish(SUBJECTS.definitionAnnounce, {});
    await eventually('a further announcement', () => announced.length > before);
  });
});
