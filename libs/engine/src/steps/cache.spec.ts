import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { makeExecuteCall } from '../execute-call.js';
import {
  anEngine,
  aRequest,
  aTool,
  failedReply,
  okReply,
  over,
  ScriptedExecutor,
} from '@toolfleet/testing/engine-fixture';
import { MemoryCatalog } from '@toolfleet/testing/memory-ports';
import { describe, expect, test } from 'vitest';

describe('cache, single flight and session dedupe', () => {
  test('a hit uses no quota, budget or attempt and is audited', async () => {
    const { call, executor, audit, budget } = anEngine(
      { rate_limit: 1, cost_per_use_micro_usd: 4_000 },
      new ScriptedExecutor(() => okReply('fresh')),
    );
    expect(await call({ rawArguments: { a: 1, b: 2 } })).toMatchObject({
      provenance: 'live',
      usage: { microUsd: 4_000 },
    });
    const hit = await call({ rawArguments: { b: '2', a: 1.0 } });
    expect(hit).toMatchObject({
      output: 'fresh',
      provenance: 'cache',
      attempts: 0,
      usage: { microUsd: 0 },
      metadata: { from_cache: true },
    });
    expect(executor.calls).toHaveLength(1);
    expect(budget.spent).toBe(4_000);
    expect(audit.records).toHaveLength(2);
  });

  test('misses for other tenants, other sessions of session-aware tools and other revisions', async () => {
    const tool = { session_aware: true };
    const { call, executor } = anEngine(tool, new ScriptedExecutor(() => okReply()));
    await call({ context: { session_id: 'a' } });
    await call({ context: { session_id: 'b' } });
    await call({
      context: { session_id: 'a' },
      principal: { tenantId: 'other', userId: 'ann', roles: [], tools: ['*'], via: 'api_key' },
    });
    expect(executor.calls).toHaveLength(3);
  });

  test.each<[string, Partial<RegisteredTool>, ReturnType<typeof okReply>]>([
    ['tools with effects', { idempotent: false }, okReply()],
    ['results of tools with a TTL of 0', { cache_ttl_seconds: 0 }, okReply()],
    ['failures', {}, failedReply('TOOL_ERROR')],
    [
      'results of an idempotent function endpoint without a TTL, whatever its response allows',
      {
        idempotent: true,
        cache_ttl_seconds: undefined,
        binding: {
          kind: 'mcp',
          server: 'geo',
          transport: 'function-args',
          url: 'https://api.example.com/functions',
          remoteName: 'geocode',
        },
      },
      { ...okReply(), cache_ttl_ms: 60_000 },
    ],
  ])('does not cache %s', async (_, tool, reply) => {
    const { call, executor } = anEngine(tool, new ScriptedExecutor(() => reply));
    await call();
    await call();
    expect(executor.calls).toHaveLength(2);
  });

  test('an MCP tool without a TTL is not looked up, and its last result still replaces a failure', async () => {
    const binding = {
      kind: 'mcp',
      server: 's',
      transport: 'streamable-http',
      url: 'https://s',
      remoteName: 'r',
    } as const;
    const tool = { binding, cache_ttl_seconds: undefined, annotations: { readOnlyHint: true } };
    const steps = new ScriptedExecutor(
      () => okReply('read'),
      () => failedReply('NETWORK_ERROR'),
    );
    const { call, clock, executor, ports } = anEngine({ ...tool, retry_policy: { kind: 'none' } }, steps);
    ports.cache.get = () => {
      throw new Error('looked up');
    };
    expect(await call()).toMatchObject({ provenance: 'live', output: 'read' });
    clock.advance(60_000);
    expect(await call()).toMatchObject({ provenance: 'stale_cache', output: 'read' });
    expect(executor.calls).toHaveLength(2);
  });

  test('a tool whose upstream allows no reuse is not looked up until it allows one', async () => {
    const binding = {
      kind: 'openapi',
      method: 'GET',
      path: '/a',
      baseUrl: 'https://a',
    } as unknown as RegisteredTool['binding'];
    let ttlMs: number | undefined;
    const { call, executor, ports } = anEngine(
      { binding, cache_ttl_seconds: undefined },
      new ScriptedExecutor(() => ({ ...okReply('read'), cache_ttl_ms: ttlMs })),
    );
    let lookups = 0;
    const get = ports.cache.get.bind(ports.cache);
    ports.cache.get = (...args) => {
      lookups += 1;
      return get(...args);
    };
    let n = 0;
    const other = () => call({ rawArguments: { a: (n += 1), b: 1 } });
    for (let read = 0; read < 20; read += 1) await other();
    expect(lookups).toBe(16);
    ttlMs = 60_000;
    const allowed = await other();
    expect([lookups, allowed.provenance]).toEqual([16, 'live']);
    expect(await call({ rawArguments: { a: n, b: 1 } })).toMatchObject({ provenance: 'cache', output: 'read' });
    expect([lookups, executor.calls.length]).toEqual([17, 21]);
    const tenant = { tenantId: 'other', userId: 'ann', roles: [], tools: ['*'], via: 'api_key' } as const;
    ttlMs = undefined;
    for (let read = 0; read < 16; read += 1) await other();
    await call({ principal: tenant });
    expect(lookups).toBe(34);
  });

  test('entries expire after their TTL', async () => {
    const { call, executor, clock } = anEngine({ cache_ttl_seconds: 10 }, new ScriptedExecutor(() => okReply()));
    await call();
    clock.advance(10_001);
    await call();
    expect(executor.calls).toHaveLength(2);
  });

  test('a server that asks one of several equal calls for input asks each of them', async () => {
    const { call, executor, clock } = anEngine(
      {},
      new ScriptedExecutor(async ({ callId }) => {
        await clock.sleep(100);
        const reply = failedReply('INPUT_REQUIRED');
        const input = { server: 's', revision: '1', requests: {}, state: callId };
        return { ...reply, failure: { ...reply.failure!, facts: { input } } };
      }),
    );
    const ids = ['a', 'b', 'c'];
    const calls = ids.map((callId) =>
      call({ callId, personInput: { capabilities: {} } }).catch((error: unknown) => error),
    );
    const asked = (await over(clock, 500, Promise.all(calls))) as { facts: { input: { state: string } } }[];
    expect(asked.map(({ facts }) => facts.input.state)).toEqual(ids);
    expect(executor.calls).toHaveLength(3);
  });

  test('runs identical concurrent calls once and charges the first', async () => {
    const { call, executor, clock, budget } = anEngine(
      { cost_per_use_micro_usd: 10 },
      new ScriptedExecutor(async () => {
        await clock.sleep(100);
        return okReply('shared');
      }),
    );
    const results = await over(clock, 200, Promise.all([call(), call(), call()]));
    expect(executor.calls).toHaveLength(1);
    expect(budget.spent).toBe(10);
    expect(results.map((result) => [result.output, result.metadata.coalesced])).toEqual([
      ['shared', undefined],
      ['shared', true],
      ['shared', true],
    ]);
  });

  test.each([
    ['in the context', { context: { session_id: 's' } }],
    ['in the arguments', { rawArguments: { a: 1, session_id: 's' } }],
  ])('does not share calls of a stateful session that is named %s', async (_, request) => {
    const { call, executor, clock } = anEngine(
      {
        session_aware: true,
        cache_ttl_seconds: 0,
        input_schema: { type: 'object', properties: { a: {}, session_id: { type: 'string' } } },
      },
      new ScriptedExecutor(() => clock.sleep(100).then(() => okReply())),
    );
    await over(clock, 200, Promise.all([call(request), call(request), call(request)]));
    expect(executor.calls).toHaveLength(3);
  });

  test('a call repeated in a session gets its first result after the cache entry has expired', async () => {
    const { call, executor, clock } = anEngine(
      { cache_ttl_seconds: 1 },
      new ScriptedExecutor(
        () => okReply('first'),
        () => okReply('second'),
      ),
    );
    const context = { session_id: 's' };
    await call({ context });
    clock.advance(100_000);
    expect(await call({ context })).toMatchObject({ output: 'first', metadata: { repeated_in_session: true } });
    clock.advance(300_000);
    expect(await call({ context })).toMatchObject({ output: 'second' });
    expect(executor.calls).toHaveLength(2);
  });
});

describe('cached results of remote tools', () => {
  const operation = (method: string, parts: Partial<RegisteredTool> = {}): Partial<RegisteredTool> => ({
    binding: {
      kind: 'openapi',
      collection: 'c',
      baseUrl: 'http://c.example',
      operationId: method,
      method,
      path: '/',
      plan: {},
    },
    source: { kind: 'openapi', name: 'c' },
    ...parts,
  });

  test.each<[string, Partial<RegisteredTool>, number | undefined, number]>([
    ['its upstream does not say', operation('GET'), undefined, 2],
    ['its upstream forbids it', operation('GET'), 0, 2],
    ['its upstream allows it', operation('GET'), 10_000, 1],
    ['its entry allows it', operation('GET', { cache_ttl_seconds: 10 }), undefined, 1],
    ['its entry allows it and its upstream does not', operation('GET', { cache_ttl_seconds: 10 }), 0, 1],
    ['its entry forbids what its upstream allows', operation('GET', { cache_ttl_seconds: 0 }), 10_000, 2],
    ['it writes', operation('PUT'), 10_000, 2],
  ])('a tool when %s', async (_when, tool, cache_ttl_ms, runs) => {
    const { call, executor, clock } = anEngine(tool, new ScriptedExecutor(() => okReply('x', { cache_ttl_ms })));
    const context = { session_id: 's' };
    await call({ context });
    await call({ context });
    expect(executor.calls).toHaveLength(runs);
    clock.advance(10_001);
    await call({ context });
    expect(executor.calls).toHaveLength(runs + 1);
  });

  test('replace a failure unless the upstream forbids to keep them or the caller asks for a live result', async () => {
    for (const [cache_ttl_ms, cache, ok] of [
      [undefined, undefined, true],
      [0, undefined, false],
      [undefined, 'reload', false],
    ] as const) {
      const executor = new ScriptedExecutor(
        () => okReply('x', { cache_ttl_ms }),
        () => failedReply('NETWORK_ERROR'),
      );
      const { call } = anEngine(operation('GET', { retry_policy: { kind: 'none' } }), executor);
      await call();
      expect(await call({ cache })).toMatchObject({ ok });
    }
  });

  test('a read does not join one that began before a write of the same source', async () => {
    let state = 'old';
    const executor = new ScriptedExecutor(async ({ tool }) => {
      if (tool.name === 'write') return okReply((state = 'new'));
      const read = state;
      await clock.sleep(100);
      return okReply(read);
    });
    const { clock, ports } = anEngine({}, executor);
    const catalog = new MemoryCatalog([
      aTool(operation('GET', { name: 'read', cache_ttl_seconds: 60 })),
      aTool(operation('PUT', { name: 'write' })),
    ]);
    const execute = makeExecuteCall({ ...ports, catalog });
    const call = (toolName: string, tenantId = 'acme') =>
      execute(aRequest(clock, { toolName, principal: { ...aRequest(clock).principal, tenantId } }));
    const [before, joined] = [call('read'), call('read')];
    await clock.run(50);
    await call('write');
    const after = over(clock, 200, call('read'));
    expect((await Promise.all([before, joined, after])).map(({ output }) => output)).toEqual(['old', 'old', 'new']);
    // The read that began first ended last but one; it did not replace the newer result.
    expect(await call('read')).toMatchObject({ output: 'new', provenance: 'cache' });
    await over(clock, 200, call('read', 'globex'));
    await call('write');
    expect(await call('read', 'globex')).toMatchObject({ provenance: 'cache' });
  });
});
