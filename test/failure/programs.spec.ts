/** Programs with effects and workers that are killed at random instants: no effect happens twice, and none is kept quiet. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { CountingMcpServer } from '../fleet/counting-mcp-server.js';
import { startNotingPrograms } from '../fleet/noting-programs.js';
import type { TestFleet } from '../fleet/test-fleet.js';

const ALL = process.env['FAILURE_SEEDS'] === 'all';
/** At least so many programs run, and on until a worker was killed so often. */
const PROGRAMS = 1_000;
const KILLS = 8;
const EFFECTS = 3;
/** Programs in flight: more than two workers run at once, so that some wait. */
const IN_FLIGHT = 16;
/** Milliseconds between a worker's return and the next kill. */
const KILL_AFTER = { least: 500, spread: 2_500 };

let server: CountingMcpServer;
let fleet: TestFleet;
describe.skipIf(!ALL)(`${PROGRAMS} programs whose workers are killed (skipped: npm run test:failure)`, () => {
  beforeAll(async () => {
    ({ server, fleet } = await startNotingPrograms(1));
  });
  afterAll(async () => {
    await fleet?.stop();
    await server?.stop();
  });

  it('repeat no effect, and report every one', async () => {
    const ends: Record<string, number> = {};
    let [next, kills] = [0, 0];
    const runAll = async (): Promise<void> => {
      for (let index = next++; index < PROGRAMS || kills < KILLS; index = next++) {
        const note = (effect: number): string => `program-${index}-${effect}`;
        const code = `for k in range(${EFFECTS}): tools.notes_save_note(text=f"program-${index}-{k}", delay_ms=20)\n"done"`;
        const answer = await fleet.call('run_program', { code, timeout_seconds: 100 });
        const { body } = answer;
        const end = answer.status === 200 && body.success ? 'success' : String(body.code ?? body.metadata?.code);
        ends[end] = (ends[end] ?? 0) + 1;
        const effects = Array.from({ length: EFFECTS }, (_, effect) => server.notes.get(note(effect)) ?? 0);
        const what = `effects of program ${index}, which ended with ${end}`;
        expect(Math.max(...effects), what).toBeLessThanOrEqual(1);
        if (end === 'success') expect(effects, what).toEqual(effects.map(() => 1));
        else expect(['WORKER_LOST', 'OUTCOME_UNKNOWN', 'SANDBOX_ERROR', 'DEADLINE_EXCEEDED'], what).toContain(end);
        const listed = (body.metadata?.calls ?? []).map(({ n }: { n: number }) => n);
        for (const [effect, times] of effects.entries()) if (times > 0) expect(listed, what).toContain(effect + 1);
      }
    };
    const all = Promise.all(Array.from({ length: IN_FLIGHT }, runAll));
    let isOver = false;
    const killing = (async () => {
      while (!isOver) {
        await sleep(KILL_AFTER.least + Math.random() * KILL_AFTER.spread);
        if (isOver) return;
        await fleet.kill('python-sandbox');
        kills += 1;
        await fleet.launch('python-sandbox');
      }
    })();
    await all.finally(() => (isOver = true));
    await killing;
    console.log({ kills, ends });
    expect(kills).toBeGreaterThanOrEqual(KILLS);
    expect(ends['success']).toBeGreaterThan(PROGRAMS / 2);
  }, 1_800_000);
});
