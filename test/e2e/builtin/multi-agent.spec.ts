/**
 * multi_agent on the running fleet, with a model that follows a script: real tools, the real budget, the real queue; and a
 * worker that is killed while its agents have effects.
 */
import type { ChildProcess } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { NatsClient } from '@toolfleet/transport';
import { endChild, eventually } from '@toolfleet/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startCountingMcpServer, type CountingMcpServer } from '../../fleet/counting-mcp-server.js';
import { startScriptedModel } from '../../fleet/scripted-model.js';
import { TestFleet } from '../../fleet/test-fleet.js';

const PRICE_USD = 0.001;
/** Four calculations, not five. */
const REQUEST_LIMIT_USD = 0.0045;
/** The default; not enough for the definitions of all tools of the fleet, nor for all turns that eight calls would take. */
const REQUEST_LIMIT_TOKENS = 10_000;
const AGENTS = 1;

interface Task {
  task_name: string;
  success: boolean;
  response?: string;
  error?: string;
  iterations: number;
  tool_calls: { tool: string; success: boolean }[];
  approvals?: { tool: string; id: string; url: string }[];
}

let model: ChildProcess;
let server: CountingMcpServer;
let fleet: TestFleet;
const policies = mkdtempSync(join(tmpdir(), 'toolfleet-agents-'));

beforeAll(async () => {
  cpSync(fileURLToPath(new URL('../../../deploy/policies', import.meta.url)), policies, { recursive: true });
  const rule =
    'ask contains "Save it?" if { input.tool == "sample_save_note"; startswith(input.arguments.text, "ask ") }';
  writeFileSync(join(policies, 'notes.rego'), `package tools\n${rule}\n`);
  server = await startCountingMcpServer();
  const scripted = await startScriptedModel();
  model = scripted.process;
  fleet = await TestFleet.start({
    services: { gateway: 1, registry: 1, budget: 1, records: 1, 'builtin-executor': 1, 'mcp-executor': 1 },
    tools: ['calculator', 'sample_save_note'],
    config: {
      mcp_servers: { sample: { url: `${server.origin}/mcp`, cost_per_use: 0 } },
      // Nothing listens there.
      mcp_tools: { gone: { url: 'http://127.0.0.1:1/functions', func_name: 'gone', stub_data: { rate: 1 } } },
      tool_settings: { sample_add: { requires_auth: true } },
      sub_agent: { max_iterations: 3, max_concurrency: 3 },
    },
    env: {
      EGRESS_ALLOWED_ENDPOINTS: `${server.origin},http://127.0.0.1:1`,
      BUILTIN_COSTS_MICRO_USD: `calculator=${PRICE_USD * 1e6}`,
      MAX_COST_PER_REQUEST: String(REQUEST_LIMIT_USD),
      MAX_TOKENS_PER_REQUEST: String(REQUEST_LIMIT_TOKENS),
      LLM_BASE_URL: scripted.baseUrl,
      LLM_MICRO_USD_PER_1K_TOKENS: '1',
    },
    envOf: { gateway: { POLICY_DIR: policies, GATEWAY_SKIP_AUTH: 'true' } },
  });
  await launchAgents();
  await fleet.untilListed(['multi_agent']);
});
afterAll(async () => {
  await fleet?.stop();
  await server?.stop();
  await endChild(model);
  rmSync(policies, { recursive: true });
});

/** A process that serves multi_agent and nothing else, as in production. */
const launchAgents = () =>
  fleet.launch('builtin-executor', { BUILTIN_TOOLSETS: 'agent', BUILTIN_RATE_LIMITS: 'multi_agent=0' });

const task = (name: string, ...instruction: string[]) => ({ name, instruction: instruction.join('\n') });
const calculate = (expression: string) => `CALL calculator ${JSON.stringify({ expression })}`;

async function run(tasks: object[], fields: object = {}, tenant = 'acme'): Promise<{ body: any; results: Task[] }> {
  const { body, status, text } = await fleet.call('multi_agent', { tasks }, { fields, key: fleet.keys[tenant]! });
  expect(status, text).toBe(200);
  return { body, results: (body.output?.results ?? []) as Task[] };
}

describe('tasks', () => {
  it('are worked on in parallel, with results of real tools, and are charged for', async () => {
    const tasks = ['6*7', '2^10', '100/8'].map((expression, n) => task(`t${n}`, calculate(expression)));
    const { body, results } = await run(tasks);
    expect(body).toMatchObject({ success: true, output: { success: true, total: 3 } });
    expect(results.map(({ response }) => response)).toEqual(['Result: 42', 'Result: 1024', 'Result: 12.5']);
    expect(body.usage.tokens).toBeGreaterThan(0);
    expect(body.usage.cost_usd).toBeCloseTo(Math.ceil(body.usage.tokens / 1_000) / 1e6, 9);
    await eventually('its calls are recorded with it', async () => {
      const recorded = await fleet.ask({ path: `/api/v1/calls/${body.call_id}/record` });
      const made = (recorded.body.made ?? []) as { tool: string }[];
      return made.map(({ tool }) => tool).join() === 'calculator,calculator,calculator';
    });
  });

  it('cannot start further agents, nor use tools they were not given', async () => {
    const { results } = await run([
      task('deeper', 'CALL multi_agent {"tasks":[{"name":"x","instruction":"SAY hi"}]}', 'SAY {results}'),
      { ...task('narrow', calculate('1+1'), 'SAY {results}'), tools: ['sample_add'] },
    ]);
    expect(results[0]?.response).toContain('Sub-agents may not call multi_agent');
    expect(results[1]?.response).toContain('This task has no tool calculator');
  });

  it('use tools that require a credential if their caller presented one', async () => {
    const tasks = [task('add', 'CALL sample_add {"a":1,"b":2}', 'SAY {results}')];
    const { results } = await run(tasks);
    expect(results).toMatchObject([{ success: true, tool_calls: [{ tool: 'sample_add', success: true }] }]);
    const { body } = await fleet.call('multi_agent', { tasks }, { key: null });
    expect(body.output.results, body.error).toMatchObject([
      {
        response: expect.stringContaining('an access token with the call that started this one'),
        tool_calls: [{ tool: 'sample_add', success: false }],
      },
    ]);
  });

  it('tell their model that a result is a substitute', async () => {
    const { results } = await run([task('stub', 'CALL gone {}', 'SAY {results}')]);
    expect(results[0]?.response).toMatch(/^Substitute data, not a live result/);
  });

  it('search the catalogue when not all tools fit a prompt', async () => {
    const { results } = await run([task('search', 'CALL search_tools {"query":"read a web page"}', 'SAY {results}')]);
    expect(results[0]?.response).toMatch(/^(You can call now: |No other tool was found$)/);
  });

  it('ask people about a call where the policy wants it, and make it when they are given again', async () => {
    const tasks = [task('keep', 'CALL sample_save_note {"text":"ask an agent"}', 'SAY {results}')];
    const saved = () => server.notes.get('ask an agent') ?? 0;
    const first = await run(tasks);
    const [asked] = first.results[0]!.approvals!;
    expect([asked!.tool, first.body.text]).toEqual(['sample_save_note', expect.stringContaining(asked!.id)]);
    // The same question again, and no effect.
    expect((await run(tasks)).results[0]!.approvals).toEqual([asked]);
    const path = `/api/v1/approvals/${asked!.id}`;
    const { body: shown } = await fleet.ask({ path });
    expect(shown).toMatchObject({ tool: 'sample_save_note', arguments: { text: 'ask an agent' }, parked: false });
    expect(shown.person).toEqual({ tenant_id: 'acme', user_id: 'app', kind: 'operator' });
    // The key of the agent's caller does not decide.
    const own = await fleet.ask({ path: `${path}/approve`, body: {}, key: fleet.keys['acme']! });
    expect(own.status, own.text).toBe(403);
    const yes = await fleet.ask({ path: `${path}/approve`, body: {} });
    expect(yes.body, yes.text).toMatchObject({ state: 'approved' });
    expect(saved()).toBe(0);
    const second = await run(tasks);
    expect(second.results[0], JSON.stringify(second.results)).toMatchObject({ tool_calls: [{ success: true }] });
    expect(saved()).toBe(1);
    // One yes is one run.
    expect((await run(tasks)).results[0]!.approvals?.[0]?.id).not.toBe(asked!.id);
    expect(saved()).toBe(1);
  });

  it('reach no dangerous tool on behalf of a public caller', async () => {
    const { results } = await run([task('writer', 'CALL file_write {"path":"a","content":"b"}', 'SAY {results}')]);
    expect(results[0]?.response).toContain('This task has no tool file_write');
  });

  it('reach the dangerous tools that policy allows, on behalf of an internal caller', async () => {
    await fleet.launch('builtin-executor', { BUILTIN_TOOLSETS: 'files' });
    await fleet.untilListed(['file_read']);
    const keyWith = async (roles: string[]): Promise<string> => {
      const body = { tenant_id: 'acme', client: 'service', roles, tier: 'wide' };
      return (await fleet.ask({ path: '/api/v1/keys', body, key: fleet.operatorKey })).body.token;
    };
    const nats = await NatsClient.connect({ url: fleet.nats.url, name: 'internal' });
    const write = async (roles: string[], path: string): Promise<string> => {
      const tasks = [task('writer', `CALL file_write ${JSON.stringify({ path, content: 'b' })}`, 'SAY {results}')];
      const reply = await nats.request<{ output: { results: Task[] } }>(
        'tool.call',
        { name: 'multi_agent', arguments: { tasks }, session_id: 'agents' },
        { timeoutMs: 30_000, headers: { Authorization: `Bearer ${await keyWith(roles)}` } },
      );
      return JSON.stringify(reply.output.results[0]);
    };
    try {
      expect(await write(['admin', 'agent_files'], 'allowed.txt')).toContain('{"tool":"file_write","success":true}');
      expect(await write(['admin'], 'denied.txt')).toContain(
        'file_write on behalf of an agent requires role agent_files',
      );
    } finally {
      await nats.close();
    }
  });

  it('end after three rounds of tool calls', async () => {
    const { results } = await run([task('endless', 'LOOP calculator {"expression":"1+1"}')]);
    expect(results[0]).toMatchObject({
      success: false,
      error: 'No answer after 3 rounds of tool calls',
      iterations: 3,
    });
    expect(results[0]?.tool_calls).toHaveLength(3);
  });
});

/** A tenant with these calls only in its ledger. */
describe('the budget', () => {
  const capped = { request_id: 'capped' };
  const stopped = {
    success: false,
    error: expect.stringMatching(/^Stopped: Budget exceeded for request:capped: 0\.004\d* of 0\.0045 USD/),
  };

  /** Rows of the lagging ledger, by tool. */
  async function ledger(): Promise<Record<string, { calls: number; cost_usd: number; tokens: number }>> {
    const { body } = await fleet.ask({ path: '/api/v1/usage?group_by=tool', key: fleet.keys['globex']! });
    return Object.fromEntries((body.rows as { tool_name: string }[]).map((row) => [row.tool_name, row as never]));
  }

  it('stops all tasks when the request may cost no more, keeps what is done, and charges exactly that', async () => {
    const slow = (name: string) =>
      task(name, 'SLEEP 300', calculate('1'), 'THEN', calculate('2'), 'THEN', calculate('3'));
    const { body, results } = await run([task('quick', calculate('3*3')), slow('b'), slow('c')], capped, 'globex');
    expect(body.success).toBe(true);
    expect(results[0]).toMatchObject({ success: true, response: 'Result: 9' });
    expect(results.slice(1)).toMatchObject([stopped, stopped]);
    await eventually('the call is in the ledger', async () => (await ledger())['multi_agent']?.calls === 1);
    expect(await ledger()).toMatchObject({
      calculator: { calls: 4, cost_usd: 4 * PRICE_USD },
      multi_agent: { calls: 1, tokens: body.usage.tokens },
    });
  });

  it('is that of the request its caller named, not a new one', async () => {
    const { results } = await run([task('late', calculate('4*4'))], capped, 'globex');
    expect(results).toMatchObject([stopped]);
    await eventually('the call is in the ledger', async () => (await ledger())['multi_agent']?.calls === 2);
    expect(await ledger()).toMatchObject({ calculator: { calls: 4 } });
  });
});

describe('calls that run at the same time', () => {
  const SHARED = { request_id: 'shared' };
  const CALLS = 8;

  it('spend from one limit exactly: their turns never pass it together', async () => {
    const long = 'word '.repeat(400);
    const tasks = Array.from({ length: 5 }, (_, n) => task(`loop${n}`, 'LOOP get_weather {"city":"Oslo"}', long));
    const answers = await Promise.all(Array.from({ length: CALLS }, () => run(tasks, SHARED)));
    const told = answers.reduce((sum, { body }) => sum + (body.metadata.llm_tokens as number), 0);
    const spending = async (): Promise<{ spent_tokens: number; held_tokens: number }> => {
      const { body } = await fleet.ask({ path: '/api/v1/budgets?request_id=shared' });
      return body.budgets.find(({ scope }: { scope: string }) => scope === 'request:shared');
    };
    await eventually('nothing is held any more', async () => (await spending()).held_tokens === 0);
    const { spent_tokens: spent } = await spending();
    console.log(`${CALLS} calls reported ${told} tokens, ${spent} are charged, of ${REQUEST_LIMIT_TOKENS}`);
    expect(told).toBeLessThanOrEqual(REQUEST_LIMIT_TOKENS);
    expect(spent).toBe(told);
    expect(spent).toBeGreaterThan(REQUEST_LIMIT_TOKENS / 4);
    const stopped = answers.flatMap(({ results }) => results.map(({ error }) => error ?? ''));
    expect(stopped).toContain('Stopped: Token limit exceeded for request:shared');
  });
});

describe('progress', () => {
  const tasks = ['1+1', '2+2'].map((expression, n) => task(`p${n}`, 'SLEEP 150', calculate(expression)));

  it('of an asynchronous call is streamed as it happens', async () => {
    const { body } = await fleet.call('multi_agent', { tasks }, { fields: { mode: 'async' } });
    const { text } = await fleet.ask({
      path: `/api/v1/calls/${body.call_id}/events`,
      headers: { accept: 'text/event-stream' },
    });
    const events = [...text.matchAll(/event: (\w+)\ndata: (.*)\n/g)].map(([, event, data = '']) => ({
      event,
      data: JSON.parse(data) as { message?: string; progress?: number; total?: number },
    }));
    const progress = events.filter(({ event }) => event === 'progress').map(({ data }) => data);
    expect(progress.map(({ message }) => message)).toContain('p0 calls calculator');
    expect(progress).toContainEqual(expect.objectContaining({ progress: 2, total: 2 }));
    expect(events.at(-1)?.event).toBe('done');
    const { body: ended } = await fleet.ask({ path: `/api/v1/calls/${body.call_id}` });
    expect(ended).toMatchObject({ status: 'succeeded', result: { output: { success: true, total: 2 } } });
  });

  it('reaches a client of MCP', async () => {
    const client = new Client({ name: 'spec', version: '1' });
    const requestInit = { headers: { Authorization: `Bearer ${fleet.adminKey}` } };
    await client.connect(new StreamableHTTPClientTransport(new URL(`${fleet.url()}/mcp`), { requestInit }));
    const told: (string | undefined)[] = [];
    try {
      const result = await client.callTool(
        { name: 'multi_agent', arguments: { tasks } },
        { onprogress: ({ message }) => told.push(message) },
      );
      expect(result.isError).not.toBe(true);
    } finally {
      await client.close();
    }
    expect(told.some((message) => message?.includes('calls calculator'))).toBe(true);
  });
});

describe('a worker killed while its agents have effects', () => {
  it('leaves each effect done at most once, and says that the outcome is unknown', async () => {
    const notes = ['n0', 'n1', 'n2'];
    const asked = run(
      notes.map((text) =>
        task(
          text,
          `CALL sample_save_note ${JSON.stringify({ text })}`,
          'THEN',
          `CALL sample_save_note ${JSON.stringify({ text: `${text}-slow`, delay_ms: 8_000 })}`,
          'THEN',
          `CALL sample_save_note ${JSON.stringify({ text: `${text}-after` })}`,
        ),
      ),
    );
    await eventually('the slow effects have begun', () => notes.every((text) => server.notes.has(`${text}-slow`)));
    await fleet.kill('builtin-executor', AGENTS);
    const successor = await launchAgents();
    const { body } = await asked;
    expect(body).toMatchObject({ success: false, metadata: { code: 'OUTCOME_UNKNOWN', retryable: false } });
    // The job came to the successor without a begin.
    await eventually('the job is taken back', async () => {
      const { body: metrics } = await successor.admin('/metrics');
      return /^toolfleet_queue_stalled_total\{queue="agent-runs"\} 1$/m.test(metrics);
    });
    for (const text of notes) {
      expect(server.notes.get(text)).toBe(1);
      expect(server.notes.get(`${text}-slow`)).toBe(1);
      expect(server.notes.has(`${text}-after`)).toBe(false);
    }
    const again = await run([task('next', calculate('5*5'))]);
    expect(again.results[0]?.response).toBe('Result: 25');
  });
});
