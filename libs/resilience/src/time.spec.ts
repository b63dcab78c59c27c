import { FakeClock } from '@toolfleet/testing';
import * as fc from 'fast-check';
import { describe, expect, test, vi } from 'vitest';
import { backoffCeilingMs, backoffMs } from './retry.js';
import { SingleFlight } from './single-flight.js';
import { Deadline } from './deadline.js';
import { RetryBudget } from './retry.js';
import { retry, type RetryNotice } from './retry.js';
import { Semaphore } from './concurrency.js';
import { TimedOut, withTimeout } from './deadline.js';
import { peekTokens, takeToken } from './token-bucket.js';

test('a deadline runs on monotonic time: a jump of the wall clock does not move it', () => {
  const clock = new FakeClock();
  const deadline = Deadline.in(clock, 1_000);
  clock.jumpWall(3_600_000);
  expect(deadline.remainingMs()).toBe(1_000);
  clock.advance(999);
  expect(deadline.remainingMs()).toBe(1);
  clock.advance(2);
  expect(deadline.remainingMs()).toBe(0);
});

describe('timeout', () => {
  test('rejects at once, although the work goes on', async () => {
    const clock = new FakeClock();
    const outcome = expect(withTimeout(clock, 50, new Promise(() => {}))).rejects.toBeInstanceOf(TimedOut);
    await clock.run(50);
    await outcome;
  });

  test('leaves no timer and no listener behind', async () => {
    const clock = new FakeClock();
    const parent = new AbortController();
    const removed = vi.spyOn(parent.signal, 'removeEventListener');
    expect(await withTimeout(clock, 50, Promise.resolve(5), parent.signal)).toBe(5);
    expect(clock.pending).toBe(0);
    expect(removed).toHaveBeenCalled();
  });

  test('follows its parent', async () => {
    const parent = new AbortController();
    const done = withTimeout(new FakeClock(), 50, new Promise(() => {}), parent.signal);
    parent.abort(new Error('gone'));
    await expect(done).rejects.toThrow('gone');
  });
});

describe('retry', () => {
  const backoff = { baseMs: 100, multiplier: 2, capMs: 10_000 };
  const run = (
    clock: FakeClock,
    outcomes: string[],
    parts: { deadlineMs?: number; signal?: AbortSignal; retryAfterMs?: number } = {},
  ) => {
    const notices: RetryNotice<string>[] = [];
    const done = retry<string>(
      {
        clock,
        deadline: Deadline.in(clock, parts.deadlineMs ?? 60_000),
        signal: parts.signal ?? new AbortController().signal,
        random: () => 1,
        judge: (outcome, attempt) =>
          outcome === 'ok' || attempt === 3
            ? { again: false }
            : { again: true, backoff, ...(parts.retryAfterMs ? { retryAfterMs: parts.retryAfterMs } : {}) },
        onRetry: (notice) => {
          notices.push(notice);
        },
      },
      async () => outcomes.shift() ?? 'none',
    );
    return { done, notices };
  };

  test('really tries again, waiting base, then base x mult', async () => {
    const clock = new FakeClock();
    const { done, notices } = run(clock, ['bad', 'bad', 'ok']);
    await clock.run(1_000);
    expect(await done).toBe('ok');
    expect(notices.map(({ attempt, delayMs }) => [attempt, delayMs])).toEqual([
      [2, 100],
      [3, 200],
    ]);
  });

  test('gives back the last outcome when attempts are used up', async () => {
    const clock = new FakeClock();
    const { done } = run(clock, ['bad 1', 'bad 2', 'bad 3', 'ok']);
    await clock.run(1_000);
    expect(await done).toBe('bad 3');
  });

  test('never waits past the deadline: the last outcome comes at once', async () => {
    const clock = new FakeClock();
    const { done, notices } = run(clock, ['bad', 'ok'], { deadlineMs: 100 });
    expect(await done).toBe('bad');
    expect(notices).toHaveLength(0);
  });

  test('waits as long as the upstream asked', async () => {
    const clock = new FakeClock();
    const { done, notices } = run(clock, ['bad', 'ok'], { retryAfterMs: 5_000 });
    await clock.run(5_000);
    expect(await done).toBe('ok');
    expect(notices[0]?.delayMs).toBe(5_000);
  });

  test('a cancelled wait ends it', async () => {
    const clock = new FakeClock();
    const abort = new AbortController();
    const { done } = run(clock, ['bad', 'ok'], { signal: abort.signal });
    await clock.run(10);
    abort.abort();
    expect(await done).toBe('bad');
    expect(clock.pending).toBe(0);
  });

  test('property: a wait is in [Retry-After, max(Retry-After, min(cap, base x mult^(k-1)))], hard cap 30 s', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 60_000 }),
        fc.double({ min: 1, max: 4, noNaN: true }),
        fc.integer({ min: 0, max: 100_000 }),
        fc.integer({ min: 1, max: 20 }),
        fc.double({ min: 0, max: 0.999, noNaN: true }),
        fc.integer({ min: 0, max: 5_000 }),
        (baseMs, multiplier, capMs, k, random, retryAfterMs) => {
          const figures = { baseMs, multiplier, capMs };
          const ceiling = backoffCeilingMs(figures, k);
          expect(ceiling).toBeLessThanOrEqual(30_000);
          expect(ceiling).toBeLessThanOrEqual(capMs);
          const wait = backoffMs(figures, k, () => random, retryAfterMs);
          expect(wait).toBeGreaterThanOrEqual(retryAfterMs);
          expect(wait).toBeLessThanOrEqual(Math.max(retryAfterMs, Math.ceil(ceiling)));
        },
      ),
    );
  });

  test('a retry budget allows a tenth of the calls, and a reserve of ten', () => {
    const budget = new RetryBudget();
    const drain = () => {
      let taken = 0;
      while (budget.withdraw()) taken += 1;
      return taken;
    };
    expect(drain()).toBe(10);
    for (let call = 0; call < 50; call += 1) budget.deposit();
    expect(drain()).toBe(5);
  });
});

describe('token bucket', () => {
  const asks = fc.array(fc.integer({ min: 0, max: 5_000 }), { maxLength: 60 });

  test('property: never more than rate x time + burst, never negative, refusals change nothing', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 500 }), asks, (perPeriod, waits) => {
        const rate = { perPeriod, periodMs: 60_000 };
        let [state, now, allowed] = [undefined as number | undefined, 0, 0];
        for (const wait of waits) {
          now += wait;
          const { state: next, decision } = takeToken(state, rate, now);
          if (decision.allowed) allowed += 1;
          else expect(next).toBe(Math.max(state ?? 0, now * 1_000));
          expect(decision.remaining).toBeGreaterThanOrEqual(0);
          state = next;
        }
        expect(allowed).toBeLessThanOrEqual(perPeriod + (now * perPeriod) / 60_000);
      }),
    );
  });

  test('property: after the time a refusal names, there is a token', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 500 }), fc.integer({ min: 0, max: 10_000 }), (perPeriod, startMs) => {
        const rate = { perPeriod, periodMs: 60_000 };
        let state: number | undefined;
        for (;;) {
          const taken = takeToken(state, rate, startMs);
          state = taken.state;
          if (taken.decision.allowed) continue;
          expect(peekTokens(state, rate, startMs)).toBe(0);
          expect(takeToken(state, rate, startMs + taken.decision.retryAfterMs).decision.allowed).toBe(true);
          break;
        }
      }),
    );
  });

  test('starts full with capacity = rate', () => {
    let state: number | undefined;
    for (let left = 59; left >= 0; left -= 1) {
      const taken = takeToken(state, { perPeriod: 60, periodMs: 60_000 }, 0);
      expect(taken.decision).toMatchObject({ allowed: true, remaining: left });
      state = taken.state;
    }
    expect(takeToken(state, { perPeriod: 60, periodMs: 60_000 }, 0).decision).toMatchObject({
      allowed: false,
      retryAfterMs: 1_000,
    });
  });
});

test('a semaphore runs so many at once, keeps order, refuses beyond its queue', async () => {
  const slots = new Semaphore(2, 1);
  let [running, most] = [0, 0];
  const work = async () => {
    running += 1;
    most = Math.max(most, running);
    await new Promise((resolve) => setImmediate(resolve));
    running -= 1;
  };
  const first = [slots.run(work), slots.run(work), slots.run(work)];
  expect(slots.run(work)).toBeUndefined();
  await Promise.all(first);
  expect(most).toBe(2);
  expect(await new Semaphore(2).map([3, 1, 2], async (item) => item * 10)).toEqual([30, 10, 20]);
});

describe('SingleFlight', () => {
  test('runs once for all, and again afterwards', async () => {
    const flights = new SingleFlight<number>();
    const { signal } = new AbortController();
    let runs = 0;
    const join = () => flights.join('k', signal, async () => (runs += 1));
    expect(await Promise.all([join(), join(), join()])).toEqual([
      { value: 1, joined: false },
      { value: 1, joined: true },
      { value: 1, joined: true },
    ]);
    expect(await join()).toEqual({ value: 2, joined: false });
    expect(flights.size).toBe(0);
  });

  test('a caller that leaves does not stop the others; when all have left, the work stops and the last one gets its outcome', async () => {
    const flights = new SingleFlight<number>();
    const [first, second] = [new AbortController(), new AbortController()];
    let work: AbortSignal | undefined;
    const start = (signal: AbortSignal) =>
      flights.join('k', signal, (given) => {
        work = given;
        return new Promise((resolve) => given.addEventListener('abort', () => resolve(7)));
      });
    const left = [
      expect(start(first.signal)).rejects.toThrow('one'),
      expect(start(second.signal)).resolves.toEqual({ value: 7, joined: true }),
    ];
    first.abort(new Error('one'));
    expect(work?.aborted).toBe(false);
    second.abort(new Error('two'));
    expect(work?.aborted).toBe(true);
    await Promise.all(left);
    expect(flights.size).toBe(0);
  });
});
