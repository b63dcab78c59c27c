import type { ChildProcess } from 'node:child_process';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ToolError, type CallBody, type CallMessage, type CallProgress, type JsonObject } from '@toolfleet/contracts';
import { EgressClient } from '@toolfleet/egress';
import { endChild, spawnChild } from '@toolfleet/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { calculator } from '../calculator/calculator.tool.js';
import { getWeather } from '../get-weather.tool.js';
import { runTool, type RunOptions } from '../../spec/run-tool.fixture.js';
import { Spending, ToolCaller, type CallerGrant, type SliceAmount, type SliceRefusal } from './agent-services.js';
import { OpenAiChatModel } from './chat-model.js';
import { multiAgent } from './multi-agent.tool.js';

/** Tools run right here; counts calls and can run out of budget. */
class LocalTools extends ToolCaller {
  readonly calls: CallMessage[] = [];
  active = 0;
  most = 0;
  budget = Number.POSITIVE_INFINITY;
  grants = new Set<string>();
  /** The limits that calls are refused by, as the budget service does. */
  spending?: LocalSpending;
  readonly #met = Promise.withResolvers<void>();

  /** @param together calls that wait for each other: none ends before so many are in work at once */
  constructor(
    private readonly together = 1,
    private readonly more: JsonObject[] = [],
  ) {
    super();
  }

  override list(): Promise<JsonObject[]> {
    const tools = [calculator, getWeather, multiAgent].map(({ metadata }) => ({
      name: metadata.name,
      description: metadata.description,
      parameters: metadata.inputSchema,
    }));
    return Promise.resolve([...this.more, ...tools]);
  }

  /** The tool of this name. */
  override async search(query: string): Promise<JsonObject[]> {
    return (await this.list()).filter(({ name }) => name === query);
  }

  override async call(message: CallMessage, grant: CallerGrant): Promise<CallBody> {
    this.calls.push(message);
    this.grants.add(grant.delegationToken);
    if (this.calls.length > this.budget)
      throw new ToolError('BUDGET_EXCEEDED', { message: 'Budget exceeded: request' });
    this.spending?.admit();
    this.active += 1;
    this.most = Math.max(this.most, this.active);
    if (this.most >= this.together) this.#met.resolve();
    await this.#met.promise;
    await new Promise((resolve) => setTimeout(resolve, 30));
    this.active -= 1;
    const base = { execution_time_ms: 1, usage: { tokens: 0, cost_usd: 0 }, call_id: 'sub' };
    try {
      const { output, text } = await runTool(calculator, message.arguments);
      return { ...base, success: true, output, text, error: null, metadata: {} };
    } catch (error) {
      return {
        ...base,
        success: false,
        output: null,
        text: '',
        error: (error as Error).message,
        metadata: { code: 'TOOL_ERROR' },
      };
    }
  }
}

/** One limit in tokens and money for all slices, as the budget service keeps it. */
class LocalSpending extends Spending {
  readonly held = new Map<string, SliceAmount>();
  readonly spent = { tokens: 0, microUsd: 0 };
  readonly settling: Promise<void>[] = [];
  /** The most that was spent and held at once. */
  readonly most = { tokens: 0, microUsd: 0 };

  constructor(private readonly limit: Partial<Record<'tokens' | 'microUsd', number>> = {}) {
    super();
  }

  private refuses(amount: Omit<SliceAmount, 'slice'>): SliceRefusal | undefined {
    for (const unit of ['microUsd', 'tokens'] as const) {
      const limit = this.limit[unit] ?? Infinity;
      const used = this.used(unit);
      if (used < limit && used + amount[unit] <= limit) continue;
      const code = unit === 'tokens' ? 'TOKEN_LIMIT_EXCEEDED' : 'BUDGET_EXCEEDED';
      return { code, scope: 'request:r', limit, used, spent: this.spent[unit] };
    }
    return undefined;
  }

  override hold(amount: SliceAmount): Promise<SliceRefusal | undefined> {
    const refusal = this.refuses(amount);
    if (refusal) return Promise.resolve(refusal);
    this.held.set(amount.slice, amount);
    for (const unit of ['microUsd', 'tokens'] as const) this.most[unit] = Math.max(this.most[unit], this.used(unit));
    return Promise.resolve(undefined);
  }

  /** Settles a little later than it confirms, as a gateway does. */
  override async settle(amount: SliceAmount): Promise<void> {
    expect(amount.tokens).toBeLessThanOrEqual(this.held.get(amount.slice)!.tokens);
    this.settling.push(
      sleep(25).then(() => {
        for (const unit of ['microUsd', 'tokens'] as const) this.spent[unit] += amount[unit];
        return this.release(amount.slice);
      }),
    );
  }

  override release(slice: string): Promise<void> {
    expect(this.held.delete(slice)).toBe(true);
    return Promise.resolve();
  }

  /** Refuses a free call like the budget service, for which a limit that is held in full is exhausted. */
  admit(): void {
    const refusal = this.refuses({ tokens: 0, microUsd: 0 });
    if (!refusal) return;
    const { code, ...details } = refusal;
    throw new ToolError(code, { message: `${details.scope} is exhausted`, details });
  }

  private used(unit: 'tokens' | 'microUsd'): number {
    return this.held.values().reduce((sum, amount) => sum + amount[unit], this.spent[unit]);
  }
}

let server: ChildProcess;
let origin: string;
let egress: EgressClient;

beforeAll(async () => {
  // The sample's own source: Node can run it because it has no imports.
  server = spawnChild(process.execPath, [
    '--disable-warning=ExperimentalWarning',
    join(import.meta.dirname, '../../../../tools/samples/src/model-server.ts'),
    '0',
  ]);
  origin = await new Promise((resolve) =>
    server.stdout?.on('data', (data: Buffer) => {
      const port = /port (\d+)/.exec(data.toString())?.[1];
      if (port) resolve(`http://127.0.0.1:${port}`);
    }),
  );
  egress = new EgressClient({ allowlist: [], allowedEndpoints: [origin] });
});
afterAll(async () => {
  await egress.close();
  await endChild(server);
});

interface Output {
  success: boolean;
  total: number;
  results: {
    task_name: string;
    success: boolean;
    response?: string;
    error?: string;
    iterations: number;
    tool_calls: unknown[];
  }[];
}

async function run(
  tasks: JsonObject[],
  tools = new LocalTools(),
  options: RunOptions = {},
  baseUrl: string | undefined = `${origin}/v1`,
  spending = new LocalSpending(),
) {
  tools.spending = spending;
  const model = new OpenAiChatModel({ baseUrl, model: 'scripted', apiKey: undefined }, egress);
  const pricing = { microUsdPer1kTokens: 100, bytesPerToken: 3, maxTokens: 500 };
  const agent = { model, tools, spending, maxIterations: 3, maxConcurrency: 3, toolParallelism: 5, pricing };
  const outcome = await runTool(
    multiAgent,
    { tasks },
    { ...options, services: { agent }, context: { delegation_token: 'tfd_x', ...options.context } },
  );
  await Promise.all(spending.settling);
  expect(spending.held.size, 'slices left open').toBe(0);
  expect({ tokens: 0, microUsd: 0, ...outcome.usage }).toMatchObject(spending.spent);
  return { ...outcome, output: outcome.output as unknown as Output };
}
const task = (name: string, instruction: string, more: JsonObject = {}) => ({ name, instruction, ...more });

describe('multi_agent with the scripted model', () => {
  it('works on tasks in parallel and keeps their order', async () => {
    const progress: CallProgress[] = [];
    const tasks = ['6*7', '2^10', '10!'].map((expression, index) =>
      task(`t${index}`, `CALL calculator {"expression":"${expression}"}`),
    );
    const tools = new LocalTools(3);
    const { output, usage, metadata } = await run(tasks, tools, { progress: (one) => progress.push(one) });
    expect(output).toMatchObject({ success: true, total: 3 });
    expect(output.results.map((one) => one.response)).toEqual(['Result: 42', 'Result: 1024', 'Result: 3628800']);
    expect(tools.most).toBe(3);
    expect(usage?.tokens).toBeGreaterThan(0);
    expect(usage?.microUsd).toBe(Math.ceil((usage?.tokens ?? 0) / 10));
    expect(metadata).toMatchObject({ succeeded: 3, failed: 0 });
    expect(progress.some((one) => one.message?.includes('calls calculator'))).toBe(true);
    expect(progress.at(-1)).toMatchObject({ progress: 3, total: 3 });
  });

  it('runs the calls of a turn concurrently and the rounds sequentially', async () => {
    const tools = new LocalTools(2);
    const script =
      'CALL calculator {"expression":"1+1"}\nCALL calculator {"expression":"2+2"}\nTHEN\nCALL calculator {"expression":"3+3"}\nSAY all: {results}';
    const { output } = await run([task('many', script)], tools);
    expect(output.results[0]).toMatchObject({ response: 'all: 2; 4; 6', iterations: 3, tool_calls: [{}, {}, {}] });
    expect(tools.most).toBe(2);
  });

  it('runs at most three tasks concurrently', async () => {
    const tools = new LocalTools(3);
    await run(
      Array.from({ length: 7 }, (_, index) => task(`t${index}`, 'CALL calculator {"expression":"1"}')),
      tools,
    );
    expect(tools.most).toBeLessThanOrEqual(3);
    expect(tools.calls).toHaveLength(7);
  });

  it('stops a model that keeps calling tools', async () => {
    const tools = new LocalTools();
    const { output } = await run([task('loop', 'LOOP calculator {"expression":"1+1"}')], tools);
    expect(output.results[0]).toMatchObject({
      success: false,
      error: 'No answer after 3 rounds of tool calls',
      iterations: 3,
    });
    expect(tools.calls).toHaveLength(3);
    expect(
      (await run([task('loop', 'LOOP calculator {"expression":"1+1"}\nSAY enough: {results}')])).output.results[0],
    ).toMatchObject({ success: true, response: 'enough: 2; 2; 2' });
  });

  it('blocks recursion and tools the task was not given', async () => {
    const tools = new LocalTools();
    const { output } = await run(
      [
        task('deeper', 'CALL multi_agent {"tasks":[]}\nSAY {results}'),
        task('other', 'CALL calculator {"expression":"1"}\nSAY {results}', { tools: ['get_weather'] }),
        task('unknown', 'SAY never', { tools: ['calculator', 'calc', 'multi_agent'] }),
      ],
      tools,
    );
    expect(output.results[2]).toMatchObject({
      success: false,
      error: 'This task names tools it cannot have: calc, multi_agent',
    });
    expect(output.results[0]?.response).toContain('Sub-agents may not call multi_agent');
    expect(output.results[1]?.response).toContain('This task has no tool calculator');
    expect(tools.calls).toHaveLength(0);
  });

  it('shows failed tools and invalid arguments to the model', async () => {
    const { output } = await run([
      task('zero', 'CALL calculator {"expression":"1/0"}\nCALL calculator not json\nSAY {results}'),
    ]);
    expect(output.results[0]).toMatchObject({ success: true, tool_calls: [{ success: false }, { success: false }] });
    expect(output.results[0]?.response).toMatch(/Division by zero.*not valid JSON/s);
  });

  it('stops every task when the budget is exhausted, and keeps finished ones', async () => {
    const tools = new LocalTools();
    tools.budget = 1;
    const { output } = await run(
      [
        task('first', 'CALL calculator {"expression":"1"}'),
        task('second', 'SLEEP 250\nCALL calculator {"expression":"2"}'),
        task('third', 'SLEEP 400\nCALL calculator {"expression":"3"}'),
      ],
      tools,
    );
    expect(output.success).toBe(true);
    expect(output.results.map((one) => one.success)).toEqual([true, false, false]);
    expect(output.results[1]?.error).toBe('Stopped: Budget exceeded: request');
    expect(output.results[2]?.error).toBe('Stopped: Budget exceeded: request');
    expect(tools.calls).toHaveLength(2);
  });

  it.each<[string, { tokens: number; microUsd?: number }, string]>([
    ['tokens', { tokens: 1_800 }, 'Token limit'],
    ['money', { tokens: 90_000, microUsd: 180 }, 'Budget'],
  ])('stops every task when its caller has no %s left for a turn, and spends no more', async (_, limit, what) => {
    const spending = new LocalSpending(limit);
    const loops = ['a', 'b', 'c'].map((name) => task(name, 'LOOP calculator {"expression":"1+1"}'));
    const { output, usage } = await run([task('short', 'SAY ok'), ...loops], undefined, {}, undefined, spending);
    expect(output.results[0]).toMatchObject({ success: true, response: 'ok' });
    const errors = output.results.slice(1).map(({ error }) => error);
    expect(errors).toContain(`Stopped: ${what} exceeded for request:r`);
    expect(usage?.settled).toBe(true);
    expect(spending.most.tokens).toBeLessThanOrEqual(limit.tokens);
    expect(spending.most.microUsd).toBeLessThanOrEqual(limit.microUsd ?? Infinity);
  });

  const manyTools = Array.from({ length: 60 }, (_, n) => ({
    name: `many_${n}`,
    description: 'One of many tools. '.repeat(10),
    parameters: { type: 'object', properties: { text: { type: 'string' } } },
  }));

  it.each<[string, JsonObject[], JsonObject]>([
    ['a few tools and a long answer', [], { max_tokens: 9_000 }],
    ['more tools than fit a prompt', manyTools, {}],
    ['more tools than fit a prompt and a long answer', manyTools, { max_tokens: 9_000 }],
  ])('has enough of 10,000 tokens for tasks with %s', async (_, more, params) => {
    const calls = ['1+1', '2+2', '3+3'].map((expression) =>
      task(expression, `CALL calculator {"expression":"${expression}"}\nTHEN\nCALL calculator {"expression":"5"}`),
    );
    const context = { prompt_params: params };
    const limit = new LocalSpending({ tokens: 10_000 });
    const { output } = await run(calls, new LocalTools(1, more), { context }, undefined, limit);
    expect(output.results.map(({ response, error }) => response ?? error)).toEqual([
      'Result: 2; 5',
      'Result: 4; 5',
      'Result: 6; 5',
    ]);
    expect(limit.most.tokens).toBeLessThanOrEqual(10_000);
  });

  it('waits for turns that hold the money of a tool call', async () => {
    const limit = new LocalSpending({ microUsd: 130 });
    const slow = 'SLEEP 300\nCALL calculator {"expression":"1"}';
    const { output } = await run([task('a', slow), task('b', slow)], undefined, {}, undefined, limit);
    expect(output.results.map(({ response, error }) => response ?? error)).toEqual(['Result: 1', 'Result: 1']);
  });

  it('finds tools that do not fit its prompts', async () => {
    const script =
      'CALL search_tools {"query":"calculator"}\nTHEN\nCALL calculator {"expression":"6*7"}\nSAY {results}';
    const { output } = await run([task('find', script)], new LocalTools(1, manyTools));
    expect(output.results[0]?.response).toBe('You can call now: calculator; 42');
  });

  it('charges a turn that was cut off in full, and none for one that the model refused', async () => {
    const caller = new AbortController();
    const refused = new LocalSpending();
    await run([task('broken', 'FAIL 500')], undefined, {}, undefined, refused);
    expect(refused.spent).toEqual({ tokens: 0, microUsd: 0 });
    const cut = new LocalSpending();
    const stopping = setTimeout(() => caller.abort(new ToolError('CANCELLED')), 300);
    await run([task('slow', 'SLEEP 9000')], undefined, { signal: caller.signal }, undefined, cut);
    clearTimeout(stopping);
    expect(cut.spent).toEqual({ tokens: cut.most.tokens, microUsd: cut.most.microUsd });
  });

  it('acts for its caller, with an idempotency key per call that a second run repeats', async () => {
    const first = new LocalTools();
    const second = new LocalTools();
    const context = { session_id: 's1', project_id: 'p1', user_id: 'ann' };
    for (const tools of [first, second])
      await run([task('a', 'CALL calculator {"expression":"1"}\nCALL calculator {"expression":"2"}')], tools, {
        context,
      });
    expect(first.calls[0]).toMatchObject(context);
    expect([...first.grants]).toEqual(['tfd_x']);
    expect(first.calls.map((one) => one.idempotency_key)).toEqual(['call_spec:0:1:0', 'call_spec:0:1:1']);
    expect(second.calls.map((one) => one.idempotency_key)).toEqual(first.calls.map((one) => one.idempotency_key));
  });

  it('names the approvals that its calls wait for, once each', async () => {
    const tools = new LocalTools();
    const approval = { id: 'a1', url: '/console/#/approvals/a1' };
    tools.call = () =>
      Promise.reject(new ToolError('APPROVAL_REQUIRED', { message: 'Ask first', details: { approval } }));
    const { output, text } = await run(
      [task('pay', 'CALL calculator {"expression":"1"}\nCALL calculator {"expression":"1"}\nSAY {results}')],
      tools,
    );
    expect(output.results[0]).toMatchObject({
      success: true,
      tool_calls: [{ success: false }, { success: false }],
      approvals: [{ tool: 'calculator', ...approval }],
    });
    expect(text).toContain('  calculator waits for the approval a1: /console/#/approvals/a1.');
  });

  it('reports a failing model and a model that is not configured', async () => {
    const { output } = await run([task('broken', 'FAIL 500'), task('fine', 'SAY ok')]);
    expect(output.results).toMatchObject([
      { success: false, error: 'The model answered HTTP 500' },
      { success: true, response: 'ok' },
    ]);
    const unconfigured = await run([task('x', 'SAY ok')], new LocalTools(), {}, '');
    expect(unconfigured.output).toMatchObject({
      success: false,
      results: [{ error: expect.stringContaining('LLM_BASE_URL') }],
    });
    await expect(run([task('x', 'SAY ok')], new LocalTools(), { context: { delegation_token: '' } })).rejects.toThrow(
      /delegation token/,
    );
  });

  it('returns and charges what is done shortly before the deadline', async () => {
    const tools = new LocalTools();
    const { output, usage } = await run(
      [task('quick', 'CALL calculator {"expression":"6*7"}'), task('slow', 'SLEEP 9000\nSAY late')],
      tools,
      { timeoutMs: 3_000 },
    );
    expect(output.results).toMatchObject([
      { success: true, response: 'Result: 42' },
      { success: false, error: 'Stopped: no time left' },
    ]);
    expect(usage?.tokens).toBeGreaterThan(0);
  });

  it('stops every task when its caller cancels, and returns and charges what is done', async () => {
    const caller = new AbortController();
    const { output, usage, failure } = await run(
      [task('quick', 'CALL calculator {"expression":"6*7"}'), task('slow', 'SLEEP 9000\nSAY late')],
      new LocalTools(),
      {
        signal: caller.signal,
        progress: ({ message }) => message === 'quick is done' && caller.abort(new ToolError('CANCELLED')),
      },
    );
    expect(output.results).toMatchObject([
      { success: true, response: 'Result: 42' },
      { success: false, error: 'Stopped: cancelled' },
    ]);
    expect(usage?.tokens).toBeGreaterThan(0);
    // Nothing goes on behind this answer: the call's outcome is known.
    expect(failure).toMatchObject({ code: 'CANCELLED', facts: { begun: 'ended' } });
  });
});
