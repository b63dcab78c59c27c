import type { ChildProcess } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { CallMessage, JsonObject } from '@toolfleet/contracts';
import type { ExecJob, ExecMessage, ExecResponse } from '@toolfleet/contracts/execution';
import type { DefinitionRegister } from '@toolfleet/contracts/registry';
import { builtinSubject, HEADERS, QUEUES, SUBJECTS } from '@toolfleet/contracts/subjects';
import type { Toolset } from '@toolfleet/contracts/tool-definition';
import { MANIFEST } from '@toolfleet/builtin-tools';
import { RedisJournal } from '@toolfleet/journal';
import { connectRedis, JobQueue, RedisTime, ReplyChannel } from '@toolfleet/queue';
import { SystemClock } from '@toolfleet/resilience';
import { loadConfig, type LifecycleComponent, ServiceFaults } from '@toolfleet/service';
import { buildExecutor } from '@toolfleet/service/executor';
import { createLogger, createMetrics } from '@toolfleet/telemetry';
import {
  endChild,
  eventually,
  schemaDefaults,
  spawnChild,
  startNats,
  startRedis,
  type NatsServer,
  type RedisServer,
} from '@toolfleet/testing';
import { untilAccepted } from '@toolfleet/testing/engine-fixture';
import { NatsClient } from '@toolfleet/transport';
import { builtinExecutor } from './wiring.js';
import { builtinExecutorConfig } from './builtin-executor.config.js';

const clock = new SystemClock();
let nats: NatsServer;
let redis: RedisServer;
let caller: NatsClient;
let model: ChildProcess;
let folder: string;
let parts: LifecycleComponent[];
const announced = new Map<string, DefinitionRegister>();
const toolCalls: { message: CallMessage; authorization: string | undefined }[] = [];

beforeAll(async () => {
  [nats, redis, folder] = await Promise.all([
    startNats(),
    startRedis(),
    mkdtemp(join(tmpdir(), 'toolfleet-executor-')),
  ]);
  model = spawnChild(process.execPath, [
    '--disable-warning=ExperimentalWarning',
    join(import.meta.dirname, '../../../tools/samples/src/model-server.ts'),
    '0',
  ]);
  const port = await new Promise<string>((resolve) =>
    model.stdout?.on('data', (data: Buffer) => {
      const found = /port (\d+)/.exec(data.toString())?.[1];
      if (found) resolve(found);
    }),
  );
  caller = await NatsClient.connect({ url: nats.url, name: 'spec' });
  standInForGatewayAndRegistry();
  await mkdir(join(folder, 'plugins'));
  const { settings } = loadConfig(builtinExecutorConfig, {
    NATS_URL: nats.url,
    REDIS_URL: redis.url,
    WORKSPACES_DIR: join(folder, 'workspaces'),
    WEB_SEARCH_PROVIDER: 'local',
    LLM_BASE_URL: `http://127.0.0.1:${port}/v1`,
    BUILTIN_PLUGINS_DIR: join(folder, 'plugins'),
    // Local mode loads plugins again when they change.
    TOOLFLEET_LOCAL: 'true',
    ENVIRONMENT: 'test',
  });
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
  for (const part of (parts ?? []).toReversed()) await part.drain?.();
  for (const part of (parts ?? []).toReversed()) await part.stop?.();
  await caller.close();
  await endChild(model);
  await Promise.all([nats.stop(), redis.stop()]);
  await rm(folder, { recursive: true, force: true });
});

/** Accepts announcements and runs sub-calls on the executor itself, as the gateway would. */
function standInForGatewayAndRegistry(): void {
  const serve = (subject: string, answer: (body: unknown, authorization: string | undefined) => unknown) =>
    caller.link.subscribe(subject, (message) => {
      const reply = answer(
        JSON.parse(Buffer.from(message.data).toString()),
        message.headers?.get(HEADERS.authorization),
      );
      void Promise.resolve(reply).then((body) => caller.publish(message.reply, body));
    });
  serve(`${SUBJECTS.definitionRegister}.*`, (body) => {
    const register = body as DefinitionRegister;
    announced.set(`${register.source.kind}/${register.source.name}`, register);
    return { registered: [], added: [], changed: [], removed: [], refused: [], quarantined: [] };
  });
  // Every slice of the budget is held.
  serve(SUBJECTS.toolSpend, () => ({ held: true }));
  serve(SUBJECTS.toolList, () => [{ name: 'calculator', description: '', parameters: { type: 'object' } }]);
  serve(SUBJECTS.toolCall, async (body, authorization) => {
    const message = body as CallMessage;
    toolCalls.push({ message, authorization });
    const reply = await execute(message.name, 'compute', message.arguments);
    return {
      success: reply.ok,
      output: reply.output,
      text: reply.text,
      error: null,
      metadata: {},
      execution_time_ms: 1,
      usage: { tokens: 0, cost_usd: 0 },
      call_id: 'sub',
    };
  });
}

const schemaOf = (tool: string): JsonObject =>
  MANIFEST.find(({ metadata }) => metadata.name === tool)?.metadata.inputSchema ?? {};

let serial = 0;
function messageOf(tool: string, toolset: Toolset, args: JsonObject, over: Partial<ExecMessage> = {}): ExecMessage {
  serial += 1;
  return {
    call_id: `call-${serial}`,
    attempt: 1,
    fence: 1,
    journalled: false,
    tool,
    revision: 'r',
    binding: { kind: 'builtin', toolset, handler: tool },
    arguments: { ...schemaDefaults(schemaOf(tool)), ...args },
    context: { tenant_id: 'acme', project_id: 'shop', delegation_token: 'tfd_token' },
    ...over,
  };
}
const execute = (tool: string, toolset: Toolset, args: JsonObject, over: Partial<ExecMessage> = {}) =>
  send(builtinSubject(toolset), messageOf(tool, toolset, args, over));
const send = (subject: string, message: ExecMessage) =>
  untilAccepted(() => caller.request<ExecResponse>(subject, message, { timeoutMs: 15_000 }));

describe('builtin-executor with every toolset, on NATS and Redis', () => {
  it('serves tools of each toolset', async () => {
    expect(await execute('text_process', 'compute', { text: 'a1', operation: 'regex', find: '\\d' })).toMatchObject({
      ok: true,
      output: { count: 1 },
    });
    expect(await execute('web_search', 'web', { query: 'x', max_results: 2 })).toMatchObject({
      ok: true,
      metadata: { source: 'local' },
    });
    expect(await execute('fetch_page', 'web', { url: 'http://169.254.169.254/' })).toMatchObject({
      ok: false,
      failure: { code: 'EGRESS_REFUSED' },
    });
    expect(await execute('file_write', 'files', { path: 'a.txt', content: 'hello' })).toMatchObject({ ok: true });
    expect(await execute('file_read', 'files', { path: 'a.txt' })).toMatchObject({ ok: true, text: 'hello' });
  });

  it('begins a journalled call once', async () => {
    const journal = new RedisJournal(redis.client(), clock);
    const message = messageOf(
      'file_write',
      'files',
      { path: 'log.txt', content: 'x', mode: 'append' },
      { journalled: true },
    );
    await journal.accept({
      callId: message.call_id,
      tenantId: 'acme',
      tool: 'file_write',
      deadlineAt: clock.now() + 30_000,
      repeatable: false,
    });
    const outcomes = await Promise.allSettled([1, 2, 3].map(() => send(builtinSubject('files'), message)));
    expect(outcomes.filter((one) => one.status === 'fulfilled')).toHaveLength(1);
    expect(outcomes.find((one) => one.status === 'rejected')?.reason).toMatchObject({
      code: 'EXECUTOR_UNAVAILABLE',
      details: { reason: 'claim_refused' },
    });
    expect(await execute('file_read', 'files', { path: 'log.txt' })).toMatchObject({ text: 'x' });
  });

  it('runs multi_agent from its queue, with the token of the call and progress', async () => {
    const [commands, blocking] = [
      connectRedis(redis.url, { name: 'spec' }),
      connectRedis(redis.url, { name: 'spec', role: 'blocking' }),
    ];
    await Promise.all([commands.connect(), blocking.connect()]);
    const time = new RedisTime(commands, clock);
    await time.start();
    const replies = new ReplyChannel({ redis: blocking, queues: [QUEUES.agentRuns], clock });
    await replies.start();
    const queue = new JobQueue<Omit<ExecJob, 'reply_channel' | 'deadline_at' | 'queued_at'>, ExecResponse>({
      name: QUEUES.agentRuns,
      redis: commands,
      time,
    });
    try {
      const tasks = ['6*7', '2^10', '100/8'].map((expression, index) => ({
        name: `t${index}`,
        instruction: `CALL calculator {"expression":"${expression}"}`,
      }));
      const progress: unknown[] = [];
      const job = { ...messageOf('multi_agent', 'agent', { tasks }), tenant_id: 'acme', timeout_ms: 20_000 };
      const reply = await replies.submit(queue, job, {
        deadlineAt: clock.now() + 20_000,
        onProgress: (one) => progress.push(one),
      });
      expect(reply).toMatchObject({
        ok: true,
        output: {
          success: true,
          total: 3,
          results: [{ response: 'Result: 42' }, { response: 'Result: 1024' }, { response: 'Result: 12.5' }],
        },
      });
      expect(toolCalls).toHaveLength(3);
      expect(new Set(toolCalls.map((one) => one.authorization))).toEqual(new Set(['Bearer tfd_token']));
      expect(new Set(toolCalls.map((one) => one.message.idempotency_key)).size).toBe(3);
      expect(progress.length).toBeGreaterThan(0);
    } finally {
      await replies.stop?.();
      await queue.close();
      time.stop();
      commands.disconnect();
      blocking.disconnect();
    }
  });

  it('loads plugins, and again when their file changes', async () => {
    const plugin = (answer: string) => `export default ({ defineTool, ok }) => defineTool({
      name: 'greet', description: 'Greets', category: 'custom',
      inputSchema: { type: 'object', properties: {} },
      handler: () => ok({ greeting: '${answer}' }, '${answer}'),
    });`;
    const greet = () => execute('greet', 'compute', {});
    await writeFile(join(folder, 'plugins', 'greet.tool.mjs'), plugin('hello'));
    await eventually('the plugin', async () => (await greet()).text === 'hello');
    await eventually(
      'its announcement',
      () => announced.get('plugin/plugin.compute')?.definitions[0]?.name === 'greet',
    );
    expect(announced.get('builtin/builtin.compute')?.definitions.some((one) => one.name === 'greet')).toBe(false);
    await writeFile(join(folder, 'plugins', 'greet.tool.mjs'), plugin('good day'));
    await eventually('the new version', async () => (await greet()).text === 'good day');
    await writeFile(join(folder, 'plugins', 'greet.tool.mjs'), 'this is not JavaScript');
    await clock.sleep(300);
    expect((await greet()).text).toBe('good day');
    const throwing = plugin('hello').replace('ok({', 'null.boom({');
    await writeFile(join(folder, 'plugins', 'greet.tool.mjs'), throwing);
    const shown = /^greet failed unexpectedly: TypeError: .*boom.* at .*greet\.tool\.mjs/;
    await eventually('the exception, in local mode', async () => shown.test((await greet()).text));
    await rm(join(folder, 'plugins', 'greet.tool.mjs'));
    await eventually('its end', async () => (await greet()).failure?.code === 'EXECUTOR_UNAVAILABLE');
  });

  it.each<[Toolset, string, JsonObject]>([
    ['compute', 'calculator', { expression: '6*7' }],
    ['web', 'web_search', { query: 'x' }],
    ['files', 'file_list', { path: '.' }],
  ])('serves its tools of %s while a plugin of the same class never ends', async (toolset, tool, args) => {
    const file = join(folder, 'plugins', `loop-${toolset}.tool.mjs`);
    await writeFile(
      file,
      `export default ({ defineTool }) => defineTool({ name: 'loop_${toolset}', description: 'd', category: 'custom',
        toolset: '${toolset}', inputSchema: { type: 'object' }, handler: () => { for (;;); } });`,
    );
    await eventually('the plugin', () =>
      (announced.get(`plugin/plugin.${toolset}`)?.definitions ?? []).some(({ name }) => name === `loop_${toolset}`),
    );
    let ended = false;
    const message = messageOf(`loop_${toolset}`, toolset, {});
    const loop = caller
      .request<ExecResponse>(builtinSubject(toolset), message, { timeoutMs: 1_500 })
      .then(
        ({ failure }) => failure?.code,
        (error: { code: string }) => error.code,
      )
      .finally(() => (ended = true));
    let served = 0;
    while (!ended) {
      expect(await execute(tool, toolset, args)).toMatchObject({ ok: true });
      served += 1;
    }
    expect(await loop).toMatch(/TIMED_OUT|DEADLINE/);
    expect(served).toBeGreaterThan(1);
    await rm(file);
  });

  it('announces every builtin tool once, dangerous ones as such', () => {
    const definitions = [...announced.values()]
      .filter((one) => one.source.kind === 'builtin')
      .flatMap((one) => one.definitions);
    expect(definitions.map((one) => one.name).toSorted()).toEqual(
      'calculator,crawl_batch,fetch_page,file_delete,file_edit,file_exists,file_list,file_mkdir,file_read,file_search,file_write,get_weather,json_process,multi_agent,text_process,web_search'.split(
        ',',
      ),
    );
    expect(
      definitions
        .filter((one) => one.dangerous)
        .map((one) => one.name)
        .toSorted(),
    ).toEqual(['file_delete', 'file_edit', 'file_write']);
    for (const definition of definitions) expect(JSON.stringify(definition.input_schema)).not.toContain('project_id');
  });
});
