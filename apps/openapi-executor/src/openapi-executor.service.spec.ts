import type { ExecMessage, ExecResponse } from '@toolfleet/contracts/execution';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import { RedisJournal } from '@toolfleet/journal';
import { SystemClock } from '@toolfleet/resilience';
import { loadConfig, type ServiceHost, type LifecycleComponent, ServiceFaults } from '@toolfleet/service';
import { buildExecutor } from '@toolfleet/service/executor';
import { createLogger, createMetrics, type Metrics } from '@toolfleet/telemetry';
import {
  startNats,
  startRecordingServer,
  startRedis,
  type NatsServer,
  type RecordingServer,
  type RedisServer,
} from '@toolfleet/testing';
import { untilAccepted } from '@toolfleet/testing/engine-fixture';
import { NatsClient } from '@toolfleet/transport';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openApiExecutor } from './wiring.js';
import { openapiExecutorConfig } from './openapi-executor.config.js';

/** The service over real brokers, its parts started as a process would. */
describe('openapi-executor service', () => {
  const clock = new SystemClock();
  let nats: NatsServer;
  let redis: RedisServer;
  let upstream: RecordingServer;
  let client: NatsClient;
  let parts: LifecycleComponent[] = [];
  let metrics: Metrics;

  beforeAll(async () => {
    [nats, redis, upstream] = await Promise.all([startNats(), startRedis(), startRecordingServer()]);
    client = await NatsClient.connect({ url: nats.url, name: 'test' });
    const { settings } = loadConfig(openapiExecutorConfig, {
      ENVIRONMENT: 'test',
      NATS_URL: nats.url,
      REDIS_URL: redis.url,
      EGRESS_ALLOWED_ENDPOINTS: upstream.url,
    });
    metrics = createMetrics({ version: '0', revision: 'test' });
    const host = {
      service: 'openapi-executor',
      logger: createLogger({ service: 'openapi-executor', level: 'silent' }),
      clock,
      metrics,
      draining: new AbortController().signal,
      faults: new ServiceFaults(new SystemClock()),
      announce: () => undefined,
      onSecretChange: () => undefined,
    } satisfies ServiceHost;
    parts = await buildExecutor(openApiExecutor, settings, host);
    for (const part of parts) await part.start?.();
  });
  afterAll(async () => {
    const reversed = parts.toReversed();
    for (const part of reversed) await part.drain?.();
    for (const part of reversed) await part.stop?.();
    await client.close();
    await Promise.all([nats.stop(), redis.stop(), upstream.stop()]);
  });

  const message = (more: Partial<ExecMessage> = {}): ExecMessage => ({
    call_id: 'call-1',
    attempt: 1,
    fence: 1,
    journalled: false,
    tool: 'make',
    revision: 'r1',
    binding: {
      kind: 'openapi',
      collection: 'c',
      baseUrl: upstream.url,
      operationId: 'make',
      method: 'POST',
      path: '/things',
      plan: { method: 'POST', path: '/things', parameters: [] },
    },
    arguments: {},
    context: { tenant_id: 't', forward_idempotency_key: true },
    ...more,
  });
  const exec = (sent: ExecMessage) =>
    untilAccepted(() => client.request<ExecResponse>(SUBJECTS.execOpenapi, sent, { timeoutMs: 10_000 }));

  it('is ready and serves exec.openapi', async () => {
    expect(await Promise.all(parts.map((part) => part.ready?.() ?? true))).not.toContain(false);
    expect(await exec(message())).toMatchObject({ ok: true, output: {}, metadata: { http_status: 200 } });
    expect(upstream.last()).toMatchObject({
      method: 'POST',
      target: '/things',
      headers: { 'idempotency-key': 'call-1' },
    });
  });

  it('sends a journalled call once, however often it is asked to', async () => {
    const journal = new RedisJournal(redis.client(), clock);
    const deadlineAt = clock.now() + 10_000;
    await journal.accept({ callId: 'call-2', tenantId: 't', tool: 'make', deadlineAt, repeatable: false });
    upstream.requests.length = 0;
    const sent = message({ call_id: 'call-2', journalled: true });
    expect(await exec(sent)).toMatchObject({ ok: true });
    await expect(exec(sent)).rejects.toMatchObject({
      code: 'EXECUTOR_UNAVAILABLE',
      details: { reason: 'claim_refused' },
    });
    await expect(exec(message({ call_id: 'never-accepted', journalled: true }))).rejects.toMatchObject({
      code: 'EXECUTOR_UNAVAILABLE',
    });
    expect(upstream.requests).toHaveLength(1);
  });

  it('shows the breaker of an origin in its metrics, open for the tenant whose calls fail', async () => {
    const of = (tenant: string, attempt = 1) => message({ context: { tenant_id: tenant }, attempt });
    upstream.answerWith((_, response) => response.writeHead(503).end());
    for (let failed = 0; failed < 4; failed += 1) await exec(message());
    // Further attempts of the same call do not count.
    for (const attempt of [2, 3]) expect(await exec(of('t', attempt))).toMatchObject({ ok: false });
    await exec(message());
    await expect(exec(message())).rejects.toMatchObject({ code: 'BREAKER_OPEN' });
    upstream.answerWith((_, response) => response.writeHead(200).end());
    expect(await exec(of('another'))).toMatchObject({ ok: true });
    await expect(exec(message())).rejects.toMatchObject({ code: 'BREAKER_OPEN' });
    const text = await metrics.registry.metrics();
    expect(text).toContain(`shannon_circuit_breaker_state{base_url="${upstream.url}"} 2`);
    expect(text).toContain(`shannon_circuit_breaker_failures_total{base_url="${upstream.url}"} 5`);
    upstream.answerWith((_, response) => response.writeHead(503).end());
    for (let failed = 0; failed < 5; failed += 1) await exec(of('another'));
    await expect(exec(of('third'))).rejects.toMatchObject({ code: 'BREAKER_OPEN' });
  });
});
