import { toMaker } from '@toolfleet/access';
import {
  ToolError,
  type CallBody,
  type CallRequest,
  type CallState,
  type JsonObject,
  type Principal,
} from '@toolfleet/contracts';
import { describe, expect, it } from 'vitest';
import type { AcceptedCall } from '@toolfleet/results';
import { QueueTasks } from './queue-tasks.js';

const alice: Principal = { tenantId: 'acme', userId: 'a', roles: [], tools: ['*'], via: 'local' };
const bob: Principal = { ...alice, tenantId: 'other' };
const body = (more: Partial<CallBody> = {}): CallBody => ({
  success: true,
  output: { n: 1 },
  text: 'one',
  error: null,
  metadata: {},
  execution_time_ms: 1,
  usage: { tokens: 0, cost_usd: 0 },
  call_id: 'c1',
  ...more,
});

/** The calls of one fleet by id. `run` changes a call as worker and queue would. */
class Calls {
  readonly stored = new Map<string, AcceptedCall>();
  async accept({ callId, principal, target }: CallRequest) {
    this.stored.set(callId, {
      callId,
      tenantId: principal.tenantId,
      tool: target.toolName,
      state: 'accepted',
      acceptedAt: 1_000,
      maker: toMaker(principal),
    });
    return { call_id: callId, status: 'accepted' as const };
  }
  async get(caller: Principal, callId: string): Promise<AcceptedCall> {
    const call = this.stored.get(callId);
    if (call?.tenantId !== caller.tenantId) throw new ToolError('NOT_FOUND');
    return { ...call, sight: call.maker === toMaker(caller) ? 'own' : 'state' };
  }
  async cancel(_caller: Principal, callId: string): Promise<CallState> {
    this.run(callId, 'cancelled');
    return 'cancelled';
  }
  async noteAnswers(callId: string, keys: readonly string[]): Promise<void> {
    const { task } = this.stored.get(callId)!;
    for (const key of keys) delete task!.requests[key];
  }
  ask(callId: string, requests: JsonObject): void {
    const task = { id: 'theirs', server: 'oven', revision: 'r1', requests };
    this.stored.set(callId, { ...this.stored.get(callId)!, task });
  }
  run(callId: string, state: CallState, result?: CallBody): void {
    const call = this.stored.get(callId);
    if (call) this.stored.set(callId, { ...call, state, finishedAt: 2_000, ...(result ? { result } : {}) });
  }
}

const setUp = async () => {
  const calls = new Calls();
  const sent: JsonObject[] = [];
  const tasks = new QueueTasks(calls, calls, async (_call, answers) => void sent.push(answers), 60);
  const task = await tasks.start({
    callId: 'c1',
    target: { toolName: 'slow' },
    principal: alice,
    mode: { kind: 'run' },
  } as CallRequest);
  return { calls, tasks, task, sent };
};

describe('tasks over the queue', () => {
  it('are calls: the task id is the call id, readable at once, by its tenant only', async () => {
    const { tasks, task } = await setUp();
    expect(task).toMatchObject({
      taskId: 'c1',
      tool: 'slow',
      status: 'working',
      createdAt: new Date(1_000).toISOString(),
    });
    expect(tasks.ttlMs).toBe(60_000);
    expect(await tasks.get(alice, 'c1')).toMatchObject({ status: 'working' });
    expect(await tasks.get(bob, 'c1')).toBeUndefined();
    expect(await tasks.cancel(bob, 'c1')).toBe(false);
    expect(await tasks.update(bob, 'c1', {})).toBe(false);
    expect(await tasks.get(alice, 'none')).toBeUndefined();
  });

  it.each<[CallState, string, CallBody | undefined, object]>([
    ['claimed', 'working', undefined, {}],
    [
      'succeeded',
      'completed',
      body(),
      { result: { isError: false, structuredContent: { n: 1 }, content: [{ type: 'text', text: 'one' }] } },
    ],
    ['succeeded', 'completed', body({ output: null, text: '' }), { result: { content: [{ type: 'text', text: '' }] } }],
    [
      'failed',
      'completed',
      body({ success: false, output: null, text: '', error: 'no such order' }),
      { result: { isError: true, content: [{ type: 'text', text: 'no such order' }] } },
    ],
    [
      'succeeded',
      'completed',
      body({ content: [{ type: 'image', data: 'AA==', mimeType: 'image/png' }] }),
      { result: { structuredContent: { n: 1 }, content: [{ type: 'image', data: 'AA==', mimeType: 'image/png' }] } },
    ],
    [
      'failed',
      'completed',
      body({ success: false, error: 'no', metadata: { code: 'TOOL_ERROR', error_type: 'execution_error' } }),
      { result: { isError: true, _meta: { call_id: 'c1', code: 'TOOL_ERROR', error_type: 'execution_error' } } },
    ],
    ['expired', 'failed', undefined, { error: { code: -32_603 } }],
    ['outcome_unknown', 'failed', undefined, { error: { message: 'The call is outcome_unknown' } }],
    ['cancelled', 'cancelled', undefined, {}],
  ])('a call that is %s is a task that is %s', async (state, status, result, more) => {
    const { calls, tasks } = await setUp();
    calls.run('c1', state, result);
    expect(await tasks.get(alice, 'c1')).toMatchObject({ status, ...more });
  });

  it('show what the server of the tool asks for, and pass on answers of the caller to that', async () => {
    const { calls, tasks, sent } = await setUp();
    const question = { method: 'elicitation/create', params: { message: 'How many?' } };
    calls.ask('c1', { one: question, two: question });
    const one = { action: 'accept' };
    expect(await tasks.get(alice, 'c1')).toMatchObject({
      status: 'input_required',
      inputRequests: { one: { params: { message: expect.stringMatching(/^The MCP server oven asks: How many\?/) } } },
    });
    // Others that see the task are not asked.
    expect(await tasks.update({ ...alice, userId: 'b' }, 'c1', { one })).toBe(false);
    expect(await tasks.update(alice, 'c1', { one, other: one })).toBe(true);
    expect(sent).toEqual([{ one }]);
    expect(Object.keys((await tasks.get(alice, 'c1'))?.inputRequests ?? {})).toEqual(['two']);
    calls.run('c1', 'succeeded', body());
    expect(await tasks.update(alice, 'c1', { two: one })).toBe(true);
    expect(await tasks.get(alice, 'c1')).toMatchObject({ status: 'completed', inputRequests: undefined });
    expect(sent).toHaveLength(1);
  });

  it('of another caller have a status, and say whom their result is for', async () => {
    const { calls, tasks } = await setUp();
    const colleague = { ...alice, userId: 'b' };
    calls.ask('c1', { one: { method: 'elicitation/create', params: { message: 'How many?' } } });
    expect(await tasks.get(colleague, 'c1')).toMatchObject({ status: 'input_required', inputRequests: {} });
    calls.run('c1', 'succeeded');
    calls.stored.set('c1', { ...calls.stored.get('c1')!, task: undefined, isWithheld: true });
    const text = expect.stringMatching(/^Arguments and results are for the key or user/);
    expect(await tasks.get(colleague, 'c1')).toMatchObject({
      status: 'completed',
      statusMessage: text,
      result: { isError: true, content: [{ type: 'text', text }] },
    });
  });

  it('fail with the error of the protocol with which the server of the tool ended them', async () => {
    const { calls, tasks } = await setUp();
    calls.run('c1', 'failed', body({ success: false, error: 'broken' }));
    calls.stored.set('c1', { ...calls.stored.get('c1')!, rpcCode: -32_099 });
    expect(await tasks.get(alice, 'c1')).toMatchObject({
      status: 'failed',
      error: { code: -32_099, message: 'broken' },
    });
  });

  it('are cancelled by cancelling the call', async () => {
    const { tasks } = await setUp();
    expect(await tasks.cancel(alice, 'c1')).toBe(true);
    expect(await tasks.get(alice, 'c1')).toMatchObject({ status: 'cancelled' });
  });
});
