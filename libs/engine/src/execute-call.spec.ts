import { CATALOGUE, MAX_FORM_CHARS, ToolError, type CallResult, type Principal } from '@toolfleet/contracts';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { aRequest, anEngine, okReply, ScriptedExecutor, type RequestFields } from '@toolfleet/testing/engine-fixture';
import { describe, expect, test } from 'vitest';
import { toExecMessage } from './attempt.js';
import { callSteps, makeExecuteCall } from './execute-call.js';
import type { ActiveCall } from './call.js';
import { Tracer, type ApprovalRequest, type PolicyResult } from './ports.js';

const once = new ScriptedExecutor(() => okReply(2));
describe('executeCall', () => {
  test('the executor gets coerced arguments with defaults, and the result lists the changes', async () => {
    const { call, executor } = anEngine({}, new ScriptedExecutor(() => okReply(3)));
    const result = await call({ rawArguments: { a: '2', zap: 1 } });
    expect(executor.calls[0]?.arguments).toEqual({ a: 2, b: 1 });
    expect(result).toMatchObject({
      ok: true,
      output: 3,
      provenance: 'live',
      attempts: 1,
      metadata: { coercions: [{ path: '/a', from: 'string', to: 'integer' }], dropped_arguments: ['zap'] },
    });
  });

  test('its tracer runs it and sees what became known of it, also of one that is refused', async () => {
    const seen: unknown[] = [];
    class Seeing extends Tracer {
      override async trace(active: ActiveCall, work: () => Promise<CallResult>): Promise<CallResult> {
        seen.push(active.tool?.name);
        try {
          return await work();
        } finally {
          seen.push(active.tool?.category, active.attempts);
        }
      }
    }
    const { call } = anEngine({ category: 'math' }, once, { tracer: new Seeing() });
    await call();
    await expect(call({ toolName: 'none' })).rejects.toMatchObject({ code: 'TOOL_NOT_FOUND' });
    expect(seen).toEqual([undefined, 'math', 1, undefined, undefined, 0]);
  });

  test('progress is reported until the call has ended', async () => {
    const seen: unknown[] = [];
    const { call, executor } = anEngine(
      {},
      new ScriptedExecutor(({ request }) => {
        request.onProgress?.({ progress: 1 });
        return okReply(3);
      }),
    );
    await call({ onProgress: (progress) => seen.push(progress) });
    executor.calls[0]?.request.onProgress?.({ progress: 2 });
    expect(seen).toEqual([{ progress: 1 }]);
  });

  test.each<[string, Partial<RegisteredTool>, RequestFields, string, number]>([
    ['no such tool', {}, { toolName: 'none' }, 'TOOL_NOT_FOUND', 404],
    ['a dangerous tool on a public entry point', { dangerous: true }, {}, 'TOOL_DANGEROUS', 403],
    [
      'a tool outside the globs of the key',
      {},
      { principal: { tenantId: 't', userId: 'u', roles: [], tools: ['web_*'], via: 'api_key' } },
      'PERMISSION_DENIED',
      403,
    ],
    [
      'an agent started by an agent',
      { binding: { kind: 'builtin', toolset: 'agent', handler: 'multi_agent' } },
      { principal: { tenantId: 'acme', userId: 'ann', roles: [], tools: ['*'], via: 'delegation' } },
      'PERMISSION_DENIED',
      403,
    ],
    ['a missing role', { required_roles: ['admin'] }, {}, 'PERMISSION_DENIED', 403],
    [
      'no credential for a tool that requires one',
      { requires_auth: true },
      { principal: { tenantId: 't', userId: 'u', roles: ['admin'], tools: ['*'], via: 'local' } },
      'PERMISSION_DENIED',
      403,
    ],
    [
      'a quarantined tool',
      { quarantine: { reason: 'changed', since_at: 0, pending_revision: 'x' } },
      {},
      'TOOL_QUARANTINED',
      403,
    ],
    [
      'a dangerous argument',
      { dangerous_when: [{ argument: 'a', values: [7] }] },
      { rawArguments: { a: '7' } },
      'TOOL_DANGEROUS',
      403,
    ],
    ['wrong arguments', {}, { rawArguments: { a: 'x' } }, 'ARGUMENTS_INVALID', 400],
    [
      'an unknown argument of a tool with effects',
      { idempotent: false },
      { rawArguments: { a: 1, zap: 1 } },
      'ARGUMENTS_INVALID',
      400,
    ],
    ['a deadline that has passed', {}, { deadlineAt: 1 }, 'DEADLINE_EXCEEDED', 504],
  ])('refuses and audits before anything runs: %s', async (_, tool, request, code, status) => {
    const { call, executor, audit, budget } = anEngine(tool, new ScriptedExecutor(() => okReply()));
    await expect(call(request)).rejects.toMatchObject({ code });
    expect(CATALOGUE[code as keyof typeof CATALOGUE].http).toBe(status);
    expect(executor.calls).toHaveLength(0);
    expect(budget.held.size).toBe(0);
    expect(audit.records).toMatchObject([{ ok: false, code }]);
  });

  test('a dangerous tool runs for internal callers', async () => {
    const { call } = anEngine({ dangerous: true }, once);
    expect(await call({ origin: 'internal' })).toMatchObject({ ok: true });
  });

  test('a policy denies with its messages and sees coerced arguments; a failing policy denies too', async () => {
    const { ports, clock } = anEngine({}, once);
    const seen: unknown[] = [];
    const denying = makeExecuteCall({
      ...ports,
      policy: { decide: ({ arguments: args }) => (seen.push(args), { allowed: false, reasons: ['no admin'] }) },
    });
    await expect(denying(aRequest(clock, { rawArguments: { a: '5' } }))).rejects.toMatchObject({
      code: 'POLICY_DENIED',
      message: 'no admin',
    });
    expect(seen).toEqual([{ a: 5, b: 1 }]);
    const broken = makeExecuteCall({ ...ports, policy: { decide: () => Promise.reject(new Error('rego')) } });
    await expect(broken(aRequest(clock))).rejects.toMatchObject({ code: 'POLICY_DENIED' });
  });

  test('a call that needs approval runs only with approval of this question and revision', async () => {
    const { ports, clock, executor } = anEngine({ revision: 'r2' }, new ScriptedExecutor(() => okReply(1)));
    const asking = makeExecuteCall({ ...ports, policy: { decide: () => ({ allowed: true, ask: ['Delete it?'] }) } });
    const agreed = (question: string, revision: string) =>
      asking(aRequest(clock, { approval: { asks: false, given: { questions: [question], revision } } }));
    const refusal = { code: 'APPROVAL_REQUIRED', details: { questions: ['Delete it?'], revision: 'r2' } };
    await expect(asking(aRequest(clock))).rejects.toMatchObject(refusal);
    await expect(agreed('Read it?', 'r2')).rejects.toMatchObject(refusal);
    // The definition changed after the approval.
    await expect(agreed('Delete it?', 'r1')).rejects.toMatchObject(refusal);
    expect(executor.calls).toHaveLength(0);
    expect(await agreed('Delete it?', 'r2')).toMatchObject({ ok: true });
  });

  test('a record has what the policy decided and by which rules; a call that ended before has none', async () => {
    const { ports, clock, audit } = anEngine({}, new ScriptedExecutor(() => okReply(1)));
    const by = { rules: ['tools.rego:8'] };
    const decisions: PolicyResult[] = [
      { allowed: true },
      { allowed: true, ask: ['Delete it?'], ...by },
      { allowed: false, reasons: ['no'], ...by },
    ];
    for (const decision of decisions) {
      const call = makeExecuteCall({ ...ports, policy: { decide: () => decision } });
      await call(aRequest(clock)).catch(() => undefined);
    }
    const failing = makeExecuteCall({ ...ports, policy: { decide: () => Promise.reject(new Error('away')) } });
    await expect(failing(aRequest(clock))).rejects.toMatchObject({ code: 'POLICY_DENIED' });
    await expect(failing(aRequest(clock, { toolName: 'unheard_of' }))).rejects.toMatchObject({
      code: 'TOOL_NOT_FOUND',
    });
    expect(audit.records.map(({ call }) => call.policy)).toEqual([
      { decision: 'allowed' },
      { decision: 'asked', ...by },
      { decision: 'denied', ...by },
      { decision: 'denied' },
      undefined,
    ]);
  });

  test('a call that people granted runs without a question to anybody, and its record names the grant', async () => {
    const { ports, clock, audit } = anEngine({}, new ScriptedExecutor(() => okReply(1)));
    const grants: (string | undefined)[] = ['g1', undefined];
    const approvals = {
      useGrant: async () => grants.shift(),
      ask: () => Promise.reject(new Error('people were asked')),
      askForProgram: () => Promise.reject(new Error('people were asked')),
    };
    const grant = { for: ['Deletions'], max_s: 60, fields: [] };
    const policy = { decide: () => ({ allowed: true as const, ask: ['Delete it?'], approval: { grant } }) };
    const asking = makeExecuteCall({ ...ports, policy, approvals });
    expect(await asking(aRequest(clock, { approval: { asks: true } }))).toMatchObject({ ok: true });
    expect(audit.records.map(({ call }) => call.approvalGrant)).toEqual(['g1']);
    await expect(asking(aRequest(clock, { approval: { asks: true } }))).rejects.toMatchObject({
      code: 'APPROVAL_REQUIRED',
    });
  });

  test('people of the fleet are asked about calls of agents, and about arguments that no form shows whole', async () => {
    const note = { type: 'object', properties: { note: { type: 'string' } } } as const;
    const { ports, clock } = anEngine({ input_schema: note }, new ScriptedExecutor(() => okReply(1)));
    const asked: unknown[] = [];
    const approvals = {
      useGrant: async () => undefined,
      ask: ({ call: { arguments: args }, refusal }: ApprovalRequest) => {
        asked.push(args);
        return Promise.reject(refusal);
      },
      askForProgram: () => Promise.reject(new Error('not a program')),
    };
    const policy = { decide: () => ({ allowed: true as const, ask: ['Delete it?'] }) };
    const asking = makeExecuteCall({ ...ports, policy, approvals });
    const byOf = (request: RequestFields) =>
      asking(aRequest(clock, request)).catch((error: ToolError) => [error.code, error.facts?.approval?.by]);
    const { principal } = aRequest(clock);
    const approval = { asks: true };
    expect(await byOf({ principal: { ...principal, via: 'delegation' } })).toEqual(['APPROVAL_REQUIRED', undefined]);
    expect(await byOf({ approval })).toEqual(['APPROVAL_REQUIRED', 'entry']);
    const rawArguments = { note: 'x'.repeat(MAX_FORM_CHARS) };
    expect(await byOf({ approval, rawArguments })).toEqual(['APPROVAL_REQUIRED', undefined]);
    expect(asked).toHaveLength(2);
    // Without a store of approvals, the refusal of an agent has what to do instead.
    const alone = makeExecuteCall({ ...ports, policy });
    await expect(alone(aRequest(clock, { principal: { ...principal, via: 'delegation' } }))).rejects.toMatchObject({
      code: 'APPROVAL_REQUIRED',
      message: expect.stringContaining('or from a program'),
    });
  });

  test('a call that is refused keeps its reason while the catalogue is unavailable', async () => {
    const { ports, clock } = anEngine({}, new ScriptedExecutor(() => okReply(1)));
    const away = () => Promise.reject(new ToolError('EXECUTOR_UNAVAILABLE'));
    const catalog = Object.assign(Object.create(ports.catalog) as typeof ports.catalog, { resolve: away });
    const call = makeExecuteCall({ ...ports, catalog });
    const mode = { kind: 'refused', reason: new ToolError('APPROVAL_DECLINED') } as const;
    await expect(call(aRequest(clock, { mode }))).rejects.toMatchObject({ code: 'APPROVAL_DECLINED' });
    await expect(call(aRequest(clock))).rejects.toMatchObject({ code: 'EXECUTOR_UNAVAILABLE' });
  });

  test('an executor that throws fails the call, not the engine', async () => {
    const { call, audit } = anEngine(
      {},
      new ScriptedExecutor(() => {
        throw new Error('boom');
      }),
    );
    await expect(call()).rejects.toMatchObject({ code: 'INTERNAL' });
    expect(audit.records).toHaveLength(1);
  });

  test('tools of public callers get session, user and project only, separate from the arguments', async () => {
    const context = { session_id: 's', project_id: 'p', model: 'm' };
    const tool = { session_aware: true, context_keys: ['project_id' as const, 'model' as const] };
    const sent = ({ executor }: { executor: ScriptedExecutor }) => toExecMessage(executor.calls[0]!).context;
    const open = anEngine(tool, new ScriptedExecutor(() => okReply()));
    await open.call({ context });
    expect(sent(open)).toEqual({ tenant_id: 'acme', session_id: 's', user_id: 'ann', project_id: 'p' });
    expect(open.executor.calls[0]?.arguments).toEqual({ a: 1, b: 1 });
    const inside = anEngine(tool, new ScriptedExecutor(() => okReply()));
    await inside.call({ context, origin: 'internal' });
    expect(sent(inside)).toEqual({ tenant_id: 'acme', session_id: 's', user_id: 'ann', project_id: 'p', model: 'm' });
    const plain = anEngine({}, new ScriptedExecutor(() => okReply()));
    await plain.call({ context });
    expect(sent(plain)).toEqual({ tenant_id: 'acme' });
  });
});

test('a dry run shows arguments, price and limits and runs nothing', async () => {
  const { call, executor, budget } = anEngine(
    { cost_per_use_micro_usd: 4_000, rate_limit: 5 },
    new ScriptedExecutor(() => okReply()),
  );
  const result = await call({ mode: { kind: 'dry' }, rawArguments: { a: '1', zap: 1 } });
  expect(result).toMatchObject({
    ok: true,
    attempts: 0,
    output: {
      dry_run: true,
      arguments: { a: 1, b: 1 },
      coercions: [{ path: '/a' }],
      dropped_arguments: ['zap'],
      cost: { cost_usd: 0.004 },
      limits: { rate_limit_per_minute: 5, rate_limit_remaining: 5 },
    },
  });
  expect([executor.calls.length, budget.settled.length, budget.held.size]).toEqual([0, 0, 0]);
  await expect(call({ mode: { kind: 'dry' }, rawArguments: {} })).rejects.toMatchObject({ code: 'ARGUMENTS_INVALID' });
});

test('a dry run shows how often the call would be attempted', async () => {
  const { call } = anEngine({ idempotent: true, retry_policy: { kind: 'network' } }, once);
  expect((await call({ mode: { kind: 'dry' } })).output).toMatchObject({ max_attempts: 3 });
  expect((await call({ mode: { kind: 'dry' }, noRetry: true })).output).toMatchObject({ max_attempts: 1 });
});

describe('calls that a tool makes', () => {
  const principal: Principal = {
    tenantId: 'acme',
    userId: 'ann',
    roles: [],
    tools: ['*'],
    via: 'delegation',
    parentCallId: 'parent',
    parentSpends: { requestId: 'parent-request', taskId: 'parent-task' },
  };

  test.each(['http', 'mcp', 'nats', 'queue'] as const)(
    'spend from the budgets of the parent call, over %s',
    async (entryPoint) => {
      const { call, budget } = anEngine({ cost_per_use_micro_usd: 10 }, new ScriptedExecutor(() => okReply()));
      await call({ principal, entryPoint, requestId: 'fresh', agentId: 'fresh', taskId: 'fresh' });
      expect(budget.settled.map(({ scopes }) => scopes)).toEqual([
        { tenant_id: 'acme', request_id: 'parent-request', task_id: 'parent-task' },
      ]);
      expect(budget.settled[0]?.row).toMatchObject({ request_id: 'parent-request', task_id: 'parent-task' });
      expect(budget.settled[0]?.row?.agent_id).toBeUndefined();
    },
  );

  test('other calls spend from the budgets that the caller names', async () => {
    const { call, budget } = anEngine({ cost_per_use_micro_usd: 10 }, new ScriptedExecutor(() => okReply()));
    await call({ requestId: 'own', agentId: 'own' });
    expect(budget.settled[0]?.scopes).toEqual({ tenant_id: 'acme', request_id: 'own', agent_id: 'own' });
  });
});

test('the steps are in the order that the documentation promises', () => {
  const { names } = callSteps(anEngine({}, once).ports);
  expect(new Set(names).size).toBe(names.length);
  const inOrder = (...wanted: string[]) => expect(names.filter((name) => wanted.includes(name))).toEqual(wanted);
  inOrder('record', 'trace', 'deadline', 'resolve', 'authorize', 'arguments', 'policy', 'dry run');
  inOrder(
    'dry run',
    'idempotency key',
    'cache',
    'concurrency limit',
    'rate limit',
    'budget',
    'breaker',
    'retry',
    'journal',
  );
});
