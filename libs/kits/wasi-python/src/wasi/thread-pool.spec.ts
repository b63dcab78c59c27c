import { setTimeout as sleep } from 'node:timers/promises';
import { SystemClock } from '@toolfleet/base';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { bundleSandbox, type SandboxScripts } from '../../spec/bundle.js';
import { bootGuest, request } from '../../spec/guest.js';
import { ThreadPool } from './thread-pool.js';

/** Longer than the waits that are not announced. */
const LONG_MS = 80;
const clock = new SystemClock();
let scripts: SandboxScripts;
let pool: ThreadPool;
/** Threads started by this process. */
let threads = 0;
const count = () => void (threads += 1);

beforeAll(async () => {
  scripts = await bundleSandbox();
  const { code, snapshot, preopens } = bootGuest();
  process.on('worker', count);
  pool = new ThreadPool({
    clock,
    code,
    snapshot,
    preopens,
    packages: {},
    threadScript: scripts.threadScript,
    threads: 1,
    programs: 3,
    outputCap: 1024 * 1024,
    defaultMemoryMb: 512,
    memoryBudgetMb: 512,
  });
  await pool.start();
});
afterAll(async () => {
  await pool?.close();
  process.off('worker', count);
  scripts?.remove();
});

/** Runs a program with a call that takes `ms`. */
function program(id: string, ms: number): Promise<unknown> {
  const fields = { memoryLimitMb: 128, program: { seed: id, startedAt: 0, inputs: null, wallMs: 10_000 } };
  const onAsk = (line: string) => {
    const { n } = JSON.parse(line) as { n: number };
    void sleep(ms).then(() => pool.answer(id, JSON.stringify({ n, ok: true, output: id, text: '' })));
  };
  return pool.run(id, request('tools.any()', fields), { onAsk }).then(({ value }) => value);
}
const run = async (id: string): Promise<unknown> => (await pool.run(id, request('1 + 1'))).value;

describe('a thread pool', () => {
  it('starts its threads and one more', () => {
    expect(threads).toBe(2);
  });

  it('starts no thread for a program that waits while another one is idle', async () => {
    for (const id of ['a', 'b', 'c']) expect(await program(id, LONG_MS)).toBe(id);
    const waiting = program('d', 4 * LONG_MS);
    await sleep(2 * LONG_MS);
    expect(threads).toBe(2);
    expect(await waiting).toBe('d');
  });

  it('starts one when programs that wait have the others', async () => {
    const waiting = ['e', 'f', 'g'].map((id) => program(id, 6 * LONG_MS));
    await sleep(2 * LONG_MS);
    expect(await Promise.all(['h', 'i'].map(run))).toEqual([2, 2]);
    expect(threads).toBeGreaterThan(2);
    expect(await Promise.all(waiting)).toEqual(['e', 'f', 'g']);
    const before = threads;
    expect([await run('k'), await program('l', LONG_MS)]).toEqual([2, 'l']);
    expect(threads).toBe(before);
  });
});
