/**
 * Calls that people approve while processes of every service are killed at random instants: none runs twice, none runs without a yes,
 * and each ends.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startCountingMcpServer, type CountingMcpServer } from '../fleet/counting-mcp-server.js';
import { killAtRandom, type Killed } from '../fleet/random-kills.js';
import { TestFleet, type Answer, type Ask } from '../fleet/test-fleet.js';

const ALL = process.env['FAILURE_SEEDS'] === 'all';
/** Calls go on until so many processes were killed. */
const KILLS = Number(process.env['FAILURE_KILLS'] ?? 500);
/** Calls in flight. */
const IN_FLIGHT = 12;
/** Milliseconds between the return of a process and the next kill. */
const KILL_AFTER = { least: 100, spread: 900 };
/** One of each executor; the last acts with a credential of its user at `identity`. */
const TOOLS = ['notes_save_note', 'add_note_here', 'addNote'];
/** Longest time in which a call ends, with several kills meanwhile. */
const END_WITHIN_MS = 180_000;
const KILLED: readonly Killed[] = [
  ...(['gateway', 'gateway', 'records', 'mcp-executor', 'budget', 'registry'] as const),
  ...(['builtin-executor', 'openapi-executor', 'identity', 'nats', 'redis'] as const),
];
const FINAL = ['succeeded', 'failed', 'cancelled', 'expired', 'outcome_unknown'];

let server: CountingMcpServer;
let fleet: TestFleet;
const policies = mkdtempSync(join(tmpdir(), 'toolfleet-approvals-'));
describe.skipIf(!ALL)(`approvals and ${KILLS} kills (skipped: npm run test:failure)`, () => {
  let bob: string;
  beforeAll(async () => {
    server = await startCountingMcpServer();
    const rules = [
      'deny contains "never" if input.tool == "none"',
      `ask contains "Save it?" if input.tool in ${JSON.stringify(TOOLS)}`,
    ];
    const plugins = join(policies, 'plugins');
    mkdirSync(plugins);
    writeFileSync(
      join(plugins, 'notes.tool.mjs'),
      `export default ({ defineTool, ok }) => defineTool({
        name: 'add_note_here', description: 'Saves a note', category: 'custom', rateLimit: 0,
        inputSchema: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
        async handler({ text }) {
          await fetch('${server.origin}/notes?' + new URLSearchParams({ text }), { method: 'POST' });
          return ok({ saved: true }, 'saved');
        },
      });`,
    );
    writeFileSync(join(policies, 'tools.rego'), ['package tools', ...rules, ''].join('\n'));
    const wide = { requests_per_minute: 1e6, requests_per_hour: 1e7, requests_per_day: 1e8 };
    fleet = await TestFleet.start({
      services: {
        ...{ gateway: 2, registry: 1, budget: 1, records: 1, identity: 1 },
        ...{ 'mcp-executor': 2, 'builtin-executor': 2, 'openapi-executor': 2 },
      },
      tools: TOOLS,
      config: {
        mcp_servers: { notes: { url: `${server.origin}/mcp`, rate_limit: 0 } },
        openapi_tools: {
          http: {
            ...{ enabled: true, spec_url: `${server.origin}/openapi.json`, rate_limit: 0 },
            auth: { user: { mode: 'api_key' } },
          },
        },
        rate_limits: { tiers: { admin: wide, wide } },
      },
      env: { EGRESS_ALLOWED_ENDPOINTS: server.origin, BUILTIN_PLUGINS_DIR: join(policies, 'plugins') },
      envOf: { gateway: { POLICY_DIR: policies } },
    });
    const body = { client: 'bob', tenant_id: 'acme', roles: ['approver'], tier: 'wide' };
    const account = { method: 'PUT', path: '/api/v1/connections/openapi/http', body: { api_key: 'key-of-acme' } };
    expect((await fleet.ask(account)).status).toBe(204);
    bob = (await fleet.ask({ path: '/api/v1/keys', body, key: fleet.operatorKey })).body.token;
  });
  afterAll(async () => {
    await fleet?.stop();
    await server?.stop();
    rmSync(policies, { recursive: true });
  });

  /** Asks some gateway until the answer is good, as a client of a killed gateway does. */
  const until = async (what: string, ask: Ask, isGood: (answer: Answer) => boolean): Promise<Answer> => {
    const giveUpAt = Date.now() + END_WITHIN_MS;
    let last = 'nothing';
    while (Date.now() < giveUpAt) {
      const signal = AbortSignal.timeout(15_000);
      try {
        const answer = await fleet.ask({ ...ask, gateway: Math.floor(Math.random() * 2), signal });
        if (isGood(answer)) return answer;
        last = `${answer.status} ${answer.text.slice(0, 500)}`;
      } catch (error) {
        last = String(error);
      }
      await sleep(100);
    }
    throw new Error(`${what} had no good answer; the last was ${last}`);
  };

  it('run each call once after a yes, and never after a no', async () => {
    const ends: Record<string, number> = {};
    const waits: number[] = [];
    let next = 0;
    let kills = 0;
    let isOver = false;
    const run = async (index: number): Promise<void> => {
      const text = `note-${index}`;
      const tool = TOOLS[index % TOOLS.length]!;
      const body = { arguments: { text }, mode: 'async', idempotency_key: text };
      const path = `/api/v1/tools/${tool}/execute`;
      const parked = await until(`call ${index}`, { path, body }, ({ status }) => status === 202);
      expect(parked.body.status, parked.text).toBe('awaiting_approval');
      const id = String(parked.body.call_id);
      const decision = index % 5 === 0 ? 'reject' : 'approve';
      const decide = () =>
        until(
          `decision ${index}`,
          { path: `/api/v1/approvals/${id}/${decision}`, body: {}, key: bob },
          ({ status }) => status === 200,
        );
      await Promise.all(index % 2 === 0 ? [decide(), decide()] : [decide()]);
      const decidedAt = Date.now();
      const isFinal = ({ body: call }: Answer) => FINAL.includes(call?.status);
      const { body: call } = await until(`the end of call ${index}`, { path: `/api/v1/calls/${id}` }, isFinal);
      waits.push(Date.now() - decidedAt);
      const code: string = call.status === 'succeeded' ? 'success' : (call.result?.metadata?.code ?? call.status);
      ends[`${tool} ${code}`] = (ends[`${tool} ${code}`] ?? 0) + 1;
      const effects = server.notes.get(text) ?? 0;
      const what = `effects of call ${index}, which ended with ${code}`;
      if (decision === 'reject') expect([effects, code], what).toEqual([0, 'APPROVAL_DECLINED']);
      else if (code === 'success') expect(effects, what).toBe(1);
      else expect(effects, what).toBeLessThanOrEqual(1);
    };
    const runAll = async (): Promise<void> => {
      while (!isOver) await run(next++);
    };
    const killing = killAtRandom(fleet, {
      names: KILLED,
      kills: KILLS,
      pauseMs: KILL_AFTER,
      onKill: (count) => (kills = count),
    });
    const work = Promise.all(Array.from({ length: IN_FLIGHT }, runAll));
    await Promise.race([work, killing]).finally(() => (isOver = true));
    await work;
    waits.sort((one, other) => one - other);
    const [half, most] = [0.5, 0.99].map((part) => waits[Math.floor(waits.length * part)]);
    console.log({ calls: next, kills, ends, end_ms: { p50: half, p99: most } });
    // What an executor stores late must not be a second effect either.
    await sleep(3_000);
    expect(Math.max(...server.notes.values())).toBe(1);
    for (const tool of TOOLS) expect(ends[`${tool} success`], tool).toBeGreaterThan(next / 9);
  }, 3_600_000);
});
