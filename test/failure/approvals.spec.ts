/**
 * Calls that people approve while processes of every service are killed at random instants: none runs twice, none runs without a yes,
 * and each ends.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
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
/** Longest time in which a call ends, with several kills meanwhile. */
const END_WITHIN_MS = 180_000;
const KILLED: readonly Killed[] = [
  ...(['gateway', 'gateway', 'records', 'mcp-executor', 'budget', 'registry'] as const),
  ...(['nats', 'redis'] as const),
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
      'ask contains "Save it?" if input.tool == "notes_save_note"',
    ];
    writeFileSync(join(policies, 'tools.rego'), ['package tools', ...rules, ''].join('\n'));
    const wide = { requests_per_minute: 1e6, requests_per_hour: 1e7, requests_per_day: 1e8 };
    fleet = await TestFleet.start({
      services: { gateway: 2, registry: 1, budget: 1, records: 1, 'mcp-executor': 2 },
      tools: ['notes_save_note'],
      config: {
        mcp_servers: { notes: { url: `${server.origin}/mcp`, rate_limit: 0 } },
        rate_limits: { tiers: { admin: wide, wide } },
      },
      env: { EGRESS_ALLOWED_ENDPOINTS: server.origin },
      envOf: { gateway: { POLICY_DIR: policies } },
    });
    const body = { client: 'bob', tenant_id: 'acme', roles: ['approver'], tier: 'wide' };
    bob = (await fleet.ask({ path: '/api/v1/keys', body, key: fleet.operatorKey })).body.token;
  });
  afterAll(async () => {
    await fleet?.stop();
    await server?.stop();
    rmSync(policies, { recursive: true });
  });

  /** Asks some gateway until the answer is good, as a client does whose gateway was killed. */
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
      const body = { arguments: { text, delay_ms: 20 }, mode: 'async', idempotency_key: text };
      const path = '/api/v1/tools/notes_save_note/execute';
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
      ends[code] = (ends[code] ?? 0) + 1;
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
    expect(ends['success']).toBeGreaterThan(next / 3);
  }, 3_600_000);
});
