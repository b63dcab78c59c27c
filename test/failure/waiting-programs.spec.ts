/**
 * Programs that wait for people, and programs that keep to plans, while gateways, sandbox workers, executors and the record of approvals
 * are killed at random instants: no effect happens twice, without its yes or outside its plan, and each program ends.
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
/** Programs go on until so many processes were killed. */
const KILLS = Number(process.env['FAILURE_KILLS'] ?? 500);
/** Programs in flight. */
const IN_FLIGHT = 8;
/** Milliseconds between the return of a process and the next kill. */
const KILL_AFTER = { least: 100, spread: 1_400 };
/** Longest time in which a program ends, with several kills meanwhile. */
const END_WITHIN_MS = 300_000;
const KILLED: readonly Killed[] = [
  ...(['gateway', 'gateway', 'python-sandbox', 'python-sandbox', 'records', 'mcp-executor', 'budget'] as const),
  ...(['nats', 'redis'] as const),
];
const FINAL = ['succeeded', 'failed', 'cancelled', 'expired', 'outcome_unknown'];

/** Programs by kind; `id` begins the texts of their notes. `maybe` are effects that may happen, at most once. */
const KINDS = {
  approved: {
    code: (id: string) => `
tools.notes_save_note(text="${id}-first")
gather(*[tools.notes_save_note(text=f"ask ${id}-{k}") for k in "ab"])
tools.notes_save_note(text="ask ${id}-c")
tools.notes_save_note(text="${id}-last")`,
    effects: (id: string) => [`${id}-first`, `ask ${id}-a`, `ask ${id}-b`, `ask ${id}-c`, `${id}-last`],
    never: () => [] as string[],
  },
  rejected: {
    code: (id: string) => `
tools.notes_save_note(text="${id}-first")
try: tools.notes_save_note(text="ask ${id}-reject")
except ToolError: tools.notes_save_note(text="${id}-handled")`,
    effects: (id: string) => [`${id}-first`, `${id}-handled`],
    never: (id: string) => [`ask ${id}-reject`],
  },
  planned: {
    code: (id: string) => `
for k in "ab": tools.notes_save_note(text=f"ask ${id}-{k}")
tools.notes_save_note(text="${id}-last")`,
    effects: (id: string) => [`ask ${id}-a`, `ask ${id}-b`, `${id}-last`],
    never: () => [] as string[],
  },
  outside: {
    code: (id: string) => `
saved = tools.notes_save_note(text="ask ${id}-a")
if not (isinstance(saved, dict) and saved.get("dry_run")): tools.notes_save_note(text="${id}-outside")
tools.notes_save_note(text="${id}-last")`,
    effects: (id: string) => [`ask ${id}-a`],
    never: (id: string) => [`${id}-outside`, `${id}-last`],
  },
} as const;

let server: CountingMcpServer;
let fleet: TestFleet;
const policies = mkdtempSync(join(tmpdir(), 'toolfleet-programs-'));
describe.skipIf(!ALL)(`programs that wait for people, and ${KILLS} kills (skipped: npm run test:failure)`, () => {
  let bob: string;
  beforeAll(async () => {
    server = await startCountingMcpServer();
    const rules = [
      'deny contains "never" if input.tool == "none"',
      'ask contains "Save it?" if { input.tool == "notes_save_note"; startswith(input.arguments.text, "ask ") }',
    ];
    writeFileSync(join(policies, 'tools.rego'), ['package tools', ...rules, ''].join('\n'));
    const wide = { requests_per_minute: 1e6, requests_per_hour: 1e7, requests_per_day: 1e8 };
    fleet = await TestFleet.start({
      services: { gateway: 2, registry: 1, budget: 1, records: 1, 'mcp-executor': 2, 'python-sandbox': 2 },
      tools: ['notes_save_note', 'run_program'],
      config: {
        mcp_servers: { notes: { url: `${server.origin}/mcp`, rate_limit: 0 } },
        tool_settings: { run_program: { rate_limit: 0 } },
        rate_limits: { tiers: { admin: wide, wide } },
      },
      env: { EGRESS_ALLOWED_ENDPOINTS: server.origin, PYTHON_SANDBOX_THREADS: '2' },
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

  const askAny = (ask: Ask): Promise<Answer> =>
    fleet.ask({ ...ask, gateway: Math.floor(Math.random() * 2), signal: AbortSignal.timeout(60_000) });

  /** Asks some gateway until the answer is good, as a client of a killed gateway does. */
  const until = async (what: string, ask: Ask, isGood: (answer: Answer) => boolean): Promise<Answer> => {
    const giveUpAt = Date.now() + END_WITHIN_MS;
    let last = 'nothing';
    while (Date.now() < giveUpAt) {
      try {
        const answer = await askAny(ask);
        if (isGood(answer)) return answer;
        last = `${answer.status} ${answer.text.slice(0, 500)}`;
      } catch (error) {
        last = String(error);
      }
      await sleep(100);
    }
    throw new Error(`${what} had no good answer; the last was ${last}`);
  };

  it('have each effect once after its yes, and none outside an approved plan', async () => {
    const ends: Record<string, number> = {};
    const yes = new Set<string>();
    let [next, kills, decisions] = [0, 0, 0];
    let isOver = false;
    const path = '/api/v1/tools/run_program/execute';
    const run = async (index: number): Promise<void> => {
      const kind = (Object.keys(KINDS) as (keyof typeof KINDS)[])[index % 4]!;
      const id = `${kind}-${index}`;
      const { code, effects, never } = KINDS[kind];
      const args = { code: code(id), timeout_seconds: 100 };
      let plan_digest: string | undefined;
      if (kind === 'planned' || kind === 'outside') {
        const planned = ({ body }: Answer) => typeof body?.output?.plan?.digest === 'string';
        const { body } = await until(`plan ${id}`, { path, body: { arguments: { ...args, plan: true } } }, planned);
        plan_digest = body.output.plan.digest;
        expect(body.output.plan.effects, id).toHaveLength(kind === 'planned' ? 3 : 2);
      }
      const body = { arguments: { ...args, ...(plan_digest && { plan_digest }) }, mode: 'async', idempotency_key: id };
      const accepted = await until(`program ${id}`, { path, body }, ({ status }) => status === 202);
      const isFinal = ({ body: call }: Answer) => FINAL.includes(call?.status);
      const callPath = `/api/v1/calls/${accepted.body.call_id}`;
      const { body: call } = await until(`the end of ${id}`, { path: callPath }, isFinal);
      const end: string = call.status === 'succeeded' ? 'success' : (call.result?.metadata?.code ?? call.status);
      ends[`${kind} ${end}`] = (ends[`${kind} ${end}`] ?? 0) + 1;
      const counts = (texts: readonly string[]) => texts.map((text) => server.notes.get(text) ?? 0);
      const what = `effects of ${id}, which ended with ${end}: ${JSON.stringify(call.result?.metadata?.calls)}`;
      const made = counts(effects(id));
      expect(Math.max(...made), what).toBeLessThanOrEqual(1);
      expect(Math.max(0, ...counts(never(id))), what).toBe(0);
      if (end === 'success' || end === 'OUTSIDE_PLAN') expect(Math.min(...made), what).toBe(1);
      if (kind === 'outside') expect(end, what).not.toBe('success');
      for (const text of effects(id))
        if (text.startsWith('ask ') && server.notes.has(text)) expect(yes, what).toContain(text);
    };
    /** Decides on what waits, each twice at once, until the programs have ended. */
    const decideAll = async (isDone: () => boolean): Promise<void> => {
      while (!isDone()) {
        const listed = await askAny({ path: '/api/v1/approvals?state=pending', key: bob }).catch(() => undefined);
        const pending: { id: string }[] = listed?.body?.approvals ?? [];
        await Promise.all(
          pending.map(async ({ id }) => {
            const one = await askAny({ path: `/api/v1/approvals/${id}`, key: bob }).catch(() => undefined);
            const asked: { arguments: { text: string } }[] =
              one?.body?.arguments?.calls ?? one?.body?.arguments?.effects ?? [];
            if (asked.length === 0) return;
            const texts = asked.map((call) => call.arguments.text);
            const decision = texts.some((text) => text.endsWith('-reject')) ? 'reject' : 'approve';
            if (decision === 'approve') for (const text of texts) yes.add(text);
            const click = () =>
              askAny({ path: `/api/v1/approvals/${id}/${decision}`, body: {}, key: bob }).catch(() => undefined);
            const clicks = await Promise.all([click(), click()]);
            if (clicks.some((answer) => answer?.status === 200)) decisions += 1;
          }),
        );
        await sleep(50);
      }
    };
    const runAll = async (): Promise<void> => {
      while (!isOver) await run(next++);
    };
    const killing = killAtRandom(fleet, {
      names: KILLED,
      kills: KILLS,
      pauseMs: KILL_AFTER,
      onKill: (count) => {
        kills = count;
        if (kills % 10 === 0) console.log({ kills, programs: next, decisions });
      },
    });
    let haveEnded = false;
    const work = Promise.all(Array.from({ length: IN_FLIGHT }, runAll)).finally(() => (haveEnded = true));
    const deciding = decideAll(() => haveEnded);
    await Promise.race([work, killing]).finally(() => (isOver = true));
    await work;
    await deciding;
    console.log({ programs: next, kills, decisions, ends });
    // What an executor stores late must not be a second effect either.
    await sleep(3_000);
    expect(Math.max(...server.notes.values())).toBe(1);
    expect(ends['approved success']).toBeGreaterThan(next / 12);
    expect(ends['planned success']).toBeGreaterThan(next / 12);
  }, 3_600_000);
});
