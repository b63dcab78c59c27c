import { setImmediate } from 'node:timers/promises';
import { FakeClock } from '@toolfleet/testing';
import { afterEach, describe, expect, it } from 'vitest';
import { SystemClock } from '@toolfleet/resilience';
import { BoundedWork, type BoundedJob } from './bounded-work.js';

const clock = new SystemClock();
let work: BoundedWork;
afterEach(() => work?.close());

/** Runs until it is killed. */
const BOMB: BoundedJob = { kind: 'regex_find', text: `${'a'.repeat(40)}!`, pattern: '^(a+)+$', flags: '', limit: 1 };
const SMALL: BoundedJob = { kind: 'jmespath', document: '{"a":1}', query: 'a' };

describe('bounded work', () => {
  const run = (job: BoundedJob, tenant: string, signal = new AbortController().signal) =>
    work.run(job, { timeoutMs: 300, signal, tenant });

  it('serves a tenant during a flood of another', async () => {
    work = new BoundedWork(clock, 1);
    const ended: string[] = [];
    const flood = Array.from({ length: 10 }, (_, n) => run(BOMB, 'loud').catch(() => ended.push(`loud ${n}`)));
    const quiet = await run(SMALL, 'quiet');
    expect(quiet).toBe(1);
    // The one in work had to end; the nine that came earlier and wait did not.
    expect(ended).toEqual(['loud 0']);
    work.close();
    await Promise.all(flood);
  });

  it('limits the queue of a tenant, but not that of others', async () => {
    work = new BoundedWork(clock, 1, 5);
    const flood = Array.from({ length: 9 }, () => run(BOMB, 'loud').catch((error: { code: string }) => error.code));
    // One in work, five wait.
    expect(await Promise.all(flood.slice(6))).toEqual(['QUEUE_FULL', 'QUEUE_FULL', 'QUEUE_FULL']);
    expect(await run(SMALL, 'quiet')).toBe(1);
  });

  it.runIf(process.platform === 'linux')(
    'gives a job its time of a core when other processes have it, in at most five times its limit',
    async () => {
      const still = new FakeClock();
      work = new BoundedWork(still, 1);
      let end: unknown;
      const bounds = { timeoutMs: 10_000, signal: new AbortController().signal, tenant: 'a' };
      const ended = work.run(BOMB, bounds).catch((error: unknown) => (end = error));
      await expect.poll(() => still.pending).toBe(1);
      const [child] = work['children'];
      child!.process.kill('SIGSTOP');
      still.advance(10_000);
      await setImmediate();
      expect(end).toBeUndefined();
      still.advance(40_000);
      expect(await ended).toMatchObject({ facts: { reason: 'too_slow' } });
    },
  );

  it('leaves the child of a tenant to it when jobs of another are killed', async () => {
    work = new BoundedWork(clock, 2);
    await run(SMALL, 'quiet');
    const [own] = work['children'];
    const flood = Array.from({ length: 3 }, () => run(BOMB, 'loud').catch(() => 'killed'));
    expect(await flood[1]).toBe('killed');
    expect(await run(SMALL, 'quiet')).toBe(1);
    expect(work['children']).toContain(own);
    work.close();
    await Promise.all(flood);
  });

  it('drops a job whose caller cancelled', async () => {
    work = new BoundedWork(clock, 1);
    const first = run(BOMB, 'a').catch(() => 'killed');
    const leaving = new AbortController();
    const left = run(SMALL, 'a', leaving.signal);
    leaving.abort(new Error('gone'));
    await expect(left).rejects.toThrow('gone');
    expect([await first, await run(SMALL, 'a')]).toEqual(['killed', 1]);
  });
});
