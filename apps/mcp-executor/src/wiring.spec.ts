import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import type { DiscoverReply, ExecMessage, ExecResponse } from '@toolfleet/contracts/execution';
import { breakerSubject, SUBJECTS } from '@toolfleet/contracts/subjects';
import { RedisJournal } from '@toolfleet/journal';
import { SystemClock } from '@toolfleet/resilience';
import { loadConfig, ServiceFaults, type ServiceHost, type LifecycleComponent } from '@toolfleet/service';
import { buildExecutor } from '@toolfleet/service/executor';
import { createLogger, createMetrics } from '@toolfleet/telemetry';
import { eventually, startNats, startRedis } from '@toolfleet/testing';
import { untilAccepted } from '@toolfleet/testing/engine-fixture';
import { NatsClient } from '@toolfleet/transport';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { mcpExecutor } from './wiring.js';
import { mcpExecutorConfig } from './mcp-executor.config.js';

const clock = new SystemClock();
const closers: (() => Promise<unknown> | unknown)[] = [];
let nats: NatsClient;
let journal: RedisJournal;
let url: string;
let effects = 0;

beforeAll(async () => {
  const handle = toNodeHandler(
    createMcpHandler(() => {
      const server = new McpServer({ name: 'test', version: '1' });
      server.registerTool('count', { description: 'Counts.', inputSchema: z.object({}) }, () => {
        effects += 1;
        return { content: [{ type: 'text', text: String(effects) }] };
      });
      return server;
    }),
  );
  const http = createServer((request, response) => void handle(request, response));
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  closers.push(() => (http.closeAllConnections(), http.close()));
  const origin = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
  url = `${origin}/mcp`;

  const natsServer = await startNats();
  const redisServer = await startRedis();
  closers.push(
    () => natsServer.stop(),
    () => redisServer.stop(),
  );
  const { settings } = loadConfig(mcpExecutorConfig, {
    ENVIRONMENT: 'test',
    NATS_URL: natsServer.url,
    REDIS_URL: redisServer.url,
    EGRESS_ALLOWED_ENDPOINTS: origin,
    LOG_LEVEL: 'silent',
  });
  const host = {
    service: 'mcp-executor',
    clock,
    logger: createLogger({ service: 'mcp-executor', level: 'silent', environment: 'test' }),
    metrics: createMetrics({ version: '0', revision: 'x' }),
    faults: new ServiceFaults(clock),
  } as unknown as ServiceHost;
  const parts: LifecycleComponent[] = await buildExecutor(mcpExecutor, settings, host);
  for (const part of parts) await part.start?.();
  closers.push(async () => {
    for (const part of parts.toReversed()) await part.drain?.();
    for (const part of parts.toReversed()) await part.stop?.();
  });
  nats = await NatsClient.connect({ url: natsServer.url, name: 'test', clock });
  journal = new RedisJournal(redisServer.client(), clock);
  closers.push(() => nats.close());
});
afterAll(async () => {
  for (const close of closers.toReversed()) await close();
});

const message = (more: Partial<ExecMessage> = {}): ExecMessage => ({
  call_id: randomUUID(),
  attempt: 1,
  fence: 1,
  journalled: false,
  tool: 'test_count',
  revision: 'r1',
  binding: { kind: 'mcp', server: 'test', transport: 'streamable-http', url, remoteName: 'count' },
  arguments: {},
  context: { tenant_id: 't' },
  ...more,
});
const send = (body: ExecMessage) =>
  untilAccepted(() =>
    nats.requestAcked<ExecResponse>(SUBJECTS.execMcp, body as never, {
      timeoutMs: 5_000,
      bumpFence: async () => undefined,
    }),
  );

describe('mcp-executor over NATS', () => {
  it('discovers and executes', async () => {
    const found = await nats.request<DiscoverReply>('exec.mcp.discover', { server: 'test', url });
    expect(found.tools.map(({ name }) => name)).toEqual(['count']);
    expect(await send(message())).toMatchObject({ ok: true, text: '1' });
  });

  it('claims a journaled call before its effect and rejects an outdated fence', async () => {
    const call = message({ journalled: true });
    const ask = {
      callId: call.call_id,
      tenantId: 't',
      tool: 'test_count',
      deadlineAt: clock.now() + 10_000,
      repeatable: false,
    };
    const accepted = await journal.accept(ask);
    expect(accepted).toMatchObject({ kind: 'accepted' });
    const fence = 'fence' in accepted ? accepted.fence : 0;
    const before = effects;
    expect(await send({ ...call, fence })).toMatchObject({ ok: true });
    await expect(send({ ...call, fence })).rejects.toMatchObject({
      code: 'EXECUTOR_UNAVAILABLE',
      details: { reason: 'claim_refused' },
    });
    await expect(send(message({ journalled: true, fence: 9 }))).rejects.toMatchObject({ code: 'EXECUTOR_UNAVAILABLE' });
    expect(effects).toBe(before + 1);
  });

  it('rejects calls to a target that a peer reported as failing', async () => {
    const down = { ...message().binding, url: 'http://down.test/mcp' } as ExecMessage['binding'];
    const opened = { key: 'http://down.test', open_for_ms: 30_000 };
    // Reports of a peer count for targets that this process has called.
    await send(message({ tool: 'down', binding: down })).catch(() => undefined);
    nats.publish(breakerSubject('openapi-executor'), { ...opened, key: new URL(url).origin });
    nats.publish(breakerSubject('mcp-executor'), { ...opened, key: new URL(url).origin, tenant_id: 'another' });
    nats.publish(breakerSubject('mcp-executor'), opened);
    await eventually('the breaker is open', () =>
      send(message({ tool: 'down', binding: down })).then(
        () => false,
        (error) => error.code === 'BREAKER_OPEN',
      ),
    );
    expect(await send(message())).toMatchObject({ ok: true });
  });

  it('reports what is wrong with a discovery', async () => {
    await expect(nats.request('exec.mcp.discover', { server: 'x', url: 'http://10.0.0.1/' })).rejects.toMatchObject({
      code: 'EGRESS_REFUSED',
    });
    await expect(nats.request('exec.mcp.discover', { server: 'x' })).rejects.toMatchObject({
      code: 'REQUEST_INVALID',
    });
  });
});
