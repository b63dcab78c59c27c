/**
 * Gateways and sandbox workers that are killed and paused at random while asynchronous programs and effects run: every accepted
 * call ends in time, no effect happens twice, and none of a call that succeeded is missing. `FAILURE_LOG=<file>` gets the calls
 * that did not succeed, what was done to which process, and the logs: what it takes to find the cause of each.
 */
import { writeFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '@toolfleet/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { CountingMcpServer } from '../fleet/counting-mcp-server.js';
import { startNotingPrograms } from '../fleet/noting-programs.js';
import type { Answer, Ask, ServiceName, TestFleet } from '../fleet/test-fleet.js';

const ALL = process.env['FAILURE_SEEDS'] === 'all';
const CALLS = Number(process.env['FAILURE_CALLS'] ?? 2_000);
const SEED = Number(process.env['FAILURE_SEED'] ?? 7);
const IN_FLIGHT = 12;
const EFFECTS = 3;
const TIMEOUT_S = 30;
/** What a call may take beyond its time-out: its worker and its gateway may be lost one after the other. */
const LATE_MS = 30_000;
const PAUSE_MS = { least: 500, spread: 9_000 };
const BETWEEN_MS = { least: 500, spread: 2_500 };
/** A gateway that is paused does not answer; another one is asked then. */
const ANSWER_MS = 3_000;
const OPEN: ReadonlySet<string> = new Set(['accepted', 'claimed']);

/** Mulberry32, so that a run can be repeated. */
function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

let server: CountingMcpServer;
let fleet: TestFleet;
beforeAll(async () => {
  ({ server, fleet } = await startNotingPrograms(2));
});
afterAll(async () => {
  await fleet?.stop();
  await server?.stop();
});

/** Asks gateways in turn until one answers. @param options makes the request of each attempt */
async function ask(options: (attempt: number) => Ask): Promise<Answer & { attempt: number }> {
  for (let attempt = 0; ; attempt += 1) {
    const gateway = attempt % Math.max(1, fleet.running.get('gateway')?.length ?? 1);
    try {
      const answer = await fleet.ask({ ...options(attempt), gateway, signal: AbortSignal.timeout(ANSWER_MS) });
      return { ...answer, attempt };
    } catch {
      await sleep(50);
    }
  }
}

/** One call, a program with effects or an effect; every second one has a key. Notes have other texts in each attempt to send it. */
async function accept(index: number) {
  const effects = index % 3 === 0 ? 1 : EFFECTS;
  const note = (attempt: number, effect: number | string): string => `call-${index}-${attempt}-${effect}`;
  const accepted = await ask((attempt) => {
    const lines = `for k in range(${EFFECTS}): tools.notes_save_note(text=f"${note(attempt, '{k}')}", delay_ms=200)`;
    const args =
      effects === 1
        ? { text: note(attempt, 0), delay_ms: 200 }
        : { code: `${lines}\n"done"`, timeout_seconds: TIMEOUT_S };
    const key = index % 2 === 0 ? { idempotency_key: `call-${index}-${attempt}` } : {};
    return {
      path: `/api/v1/tools/${effects === 1 ? 'notes_save_note' : 'run_program'}/execute`,
      body: { mode: 'async', timeout_ms: TIMEOUT_S * 1_000, arguments: args, ...key },
    };
  });
  const notes = Array.from({ length: effects }, (_, effect) => note(accepted.attempt, effect));
  return { accepted, notes };
}

/** Ends that a call may have while its gateway and its workers are lost or suspended. Every other one is a fault. */
const ENDS: ReadonlySet<string> = new Set([
  'succeeded',
  // It waited until its deadline, or was being repeated then.
  'DEADLINE_EXCEEDED',
  'ATTEMPT_TIMED_OUT',
  // Its second worker was lost as well.
  'WORKER_LOST',
  'OUTCOME_UNKNOWN',
  // Its gateway was suspended while it waited for Redis or the budget; a program ends with what its call got.
  'SERVICE_UNAVAILABLE',
  'BUDGET_UNAVAILABLE',
  'SANDBOX_ERROR',
]);
const ends: Record<string, number> = {};
let maxMs = 0;
/** Calls that did not succeed, and kills and pauses, each with its time. */
const failed: string[] = [];
const strikes: string[] = [];
const noteStrike = (what: string, { pid }: { pid: number }): void =>
  void strikes.push(`${new Date().toISOString()} ${what} ${pid}`);

/** Makes one call, and checks its end and its effects. */
async function runOne(index: number): Promise<void> {
  const { accepted, notes } = await accept(index);
  expect([202, 503], accepted.text).toContain(accepted.status);
  if (accepted.status !== 202) return;
  const path = `/api/v1/calls/${accepted.body.call_id}`;
  const from = performance.now();
  let call = await ask(() => ({ path }));
  // A gateway that was suspended finds its requests to Redis too late.
  while (call.status === 503 || OPEN.has(call.body.status)) {
    const tookMs = performance.now() - from;
    expect(tookMs, `call ${index}, ${accepted.text}`).toBeLessThan(TIMEOUT_S * 1_000 + LATE_MS);
    await sleep(100);
    call = await ask(() => ({ path }));
  }
  maxMs = Math.max(maxMs, performance.now() - from);
  const { status, result } = call.body;
  const end = status === 'succeeded' ? status : String(result?.metadata?.code);
  ends[end] = (ends[end] ?? 0) + 1;
  if (status !== 'succeeded') failed.push(`${index} ${call.text}`);
  expect(ENDS, call.text).toContain(end);
  const happened = notes.map((each) => server.notes.get(each) ?? 0);
  const what = `effects of call ${index}, ${call.text}`;
  expect(Math.max(...happened), what).toBeLessThanOrEqual(1);
  if (status === 'succeeded') expect(happened, what).toEqual(happened.map(() => 1));
}

/** Makes so many calls, a few at a time. */
async function runAll(calls: number): Promise<void> {
  let next = 0;
  const runSome = async (): Promise<void> => {
    for (let index = next++; index < calls; index = next++) await runOne(index);
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, runSome)).finally(() =>
    console.log(JSON.stringify({ calls, ends, maxMs: Math.round(maxMs) })),
  );
  const log = process.env['FAILURE_LOG'];
  if (log) await writeFile(log, [...failed, ...strikes, fleet.logs()].join('\n'));
  expect(ends['succeeded'] ?? 0).toBeGreaterThan(calls / 2);
}

describe.runIf(ALL)(`${CALLS} asynchronous calls while gateways and workers are killed and paused`, () => {
  it('end in time, and repeat and lose no effect', async () => {
    const random = randomOf(SEED);
    const between = ({ least, spread }: { least: number; spread: number }): number => least + random() * spread;
    let isOver = false;
    const strike = async (name: ServiceName): Promise<void> => {
      const members = fleet.running.get(name) ?? [];
      const index = Math.floor(random() * members.length);
      const member = members[index]!;
      if (random() < 0.5) {
        noteStrike(`kill ${name}`, member);
        await fleet.kill(name, index);
        noteStrike(`started ${name}`, await fleet.launch(name));
        return;
      }
      noteStrike(`pause ${name}`, member);
      member.pause();
      await sleep(between(PAUSE_MS));
      member.resume();
      noteStrike(`resume ${name}`, member);
    };
    const striking = (['gateway', 'python-sandbox'] as const).map(async (name) => {
      while (!isOver) {
        await sleep(between(BETWEEN_MS));
        if (!isOver) await strike(name);
      }
    });
    await runAll(CALLS).finally(() => (isOver = true));
    await Promise.all(striking);
  }, 5_400_000);
});

describe.skipIf(ALL)('asynchronous calls while a gateway and a worker are killed', () => {
  it('end in time, and repeat and lose no effect', async () => {
    const all = runAll(IN_FLIGHT);
    await eventually('programs run', () => [...server.notes.keys()].some((note) => note.startsWith('call-')));
    await Promise.all([fleet.kill('gateway', 1), fleet.kill('python-sandbox', 1)]);
    await all;
  });

  it('a call whose time was over before its suspended gateway read it does not begin', async () => {
    const gateway = fleet.process('gateway');
    gateway.pause();
    const fields = { timeout_ms: 1_000 };
    const http = fleet.call('notes_save_note', { text: 'late' }, { fields });
    const params = { name: 'notes_save_note', arguments: { text: 'late' }, _meta: fields };
    const mcp = fleet.ask({
      path: '/mcp',
      body: { jsonrpc: '2.0', id: 1, method: 'tools/call', params },
      headers: { accept: 'application/json, text/event-stream' },
    });
    await sleep(4_000);
    gateway.resume();
    expect(await http).toMatchObject({ status: 504, body: { code: 'DEADLINE_EXCEEDED' } });
    expect((await mcp).text).toContain('DEADLINE_EXCEEDED');
    expect(server.notes.get('late')).toBeUndefined();
  });
});
