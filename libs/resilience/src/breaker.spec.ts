import { afterEach, describe, expect, test } from 'vitest';
import { BreakerMap, type BreakerTransition } from './breaker-map.js';
import { Breaker, CONSECUTIVE_RULE, ERROR_RATE_RULE, type BreakerJudgement, type BreakerRule } from './breaker.js';
import { SystemClock } from './clock.js';

const clock = new SystemClock();
const made: Breaker[] = [];
afterEach(() => {
  for (const breaker of made.splice(0)) breaker.dispose();
});

function breakerOf(rule: BreakerRule, seen: string[] = []): Breaker {
  const breaker = new Breaker('x', rule, clock, (state) => seen.push(state));
  made.push(breaker);
  return breaker;
}
/** Outcomes are values here; the breaker counts what they are judged to be. */
const give = (breaker: Breaker, outcome: BreakerJudgement) =>
  breaker.run(
    async () => outcome,
    (value) => value,
  );
const consecutive: BreakerRule = { consecutiveFailures: 5, recoveryMs: 40 };
const rate: BreakerRule = { errorRate: { threshold: 0.5, windowMs: 30_000, minCalls: 20 }, recoveryMs: 40 };

describe('consecutive rule', () => {
  test('opens at the fifth failure in a row, not before; a success starts over', async () => {
    const breaker = breakerOf(consecutive);
    for (let index = 0; index < 4; index += 1) await give(breaker, 'failure');
    await give(breaker, 'success');
    for (let index = 0; index < 4; index += 1) await give(breaker, 'failure');
    expect(breaker.state).toBe('closed');
    await give(breaker, 'failure');
    expect(breaker.state).toBe('open');
    expect(await give(breaker, 'success')).toMatchObject({ refused: true });
    expect(breaker.retryAfterMs).toBeGreaterThan(0);
  });

  test('exceptions count too, and reach the caller', async () => {
    const breaker = breakerOf(consecutive);
    for (let index = 0; index < 5; index += 1) {
      await expect(
        breaker.run(
          () => Promise.reject(new Error('reset')),
          () => 'success',
        ),
      ).rejects.toThrow('reset');
    }
    expect(breaker.state).toBe('open');
  });

  test('what says nothing about the target counts nothing', async () => {
    const breaker = breakerOf(consecutive);
    for (let index = 0; index < 20; index += 1) await give(breaker, 'ignored');
    expect(breaker.state).toBe('closed');
  });
});

describe('error rate rule', () => {
  test('opens at half of at least 20', async () => {
    const breaker = breakerOf(rate);
    for (let index = 0; index < 19; index += 1) await give(breaker, index % 2 ? 'success' : 'failure');
    expect(breaker.state).toBe('closed');
    await give(breaker, 'failure');
    expect(breaker.state).toBe('open');
  });

  test('stays closed below the rate however many calls', async () => {
    const breaker = breakerOf(rate);
    for (let index = 0; index < 200; index += 1) await give(breaker, index % 3 ? 'success' : 'failure');
    expect(breaker.state).toBe('closed');
  });
});

describe('recovery', () => {
  async function opened(seen: string[] = []): Promise<Breaker> {
    const breaker = breakerOf(consecutive, seen);
    for (let index = 0; index < 5; index += 1) await give(breaker, 'failure');
    await expect.poll(() => breaker.state, { interval: 5 }).toBe('half_open');
    return breaker;
  }

  test('one probe of many callers is let through; its success closes', async () => {
    const seen: string[] = [];
    const breaker = await opened(seen);
    let runs = 0;
    let release = () => {};
    const held = new Promise<void>((resolve) => (release = resolve));
    const probes = Array.from({ length: 10 }, () =>
      breaker.run(
        async () => {
          runs += 1;
          await held;
          return 'ok';
        },
        () => 'success',
      ),
    );
    release();
    const outcomes = await Promise.all(probes);
    expect(runs).toBe(1);
    expect(outcomes.filter((outcome) => outcome.refused)).toHaveLength(9);
    expect(breaker.state).toBe('closed');
    expect(seen).toEqual(['open', 'half_open', 'closed']);
  });

  test('a failed probe opens again; a cancelled one too, because it proves nothing', async () => {
    const failed = await opened();
    await give(failed, 'failure');
    expect(failed.state).toBe('open');
    const cancelled = await opened();
    await give(cancelled, 'ignored');
    expect(cancelled.state).toBe('open');
  });

  test('after recovery old failures are forgotten', async () => {
    const breaker = breakerOf(rate);
    for (let index = 0; index < 20; index += 1) await give(breaker, 'failure');
    await expect.poll(() => breaker.state, { interval: 5 }).toBe('half_open');
    await give(breaker, 'success');
    await give(breaker, 'failure');
    expect(breaker.state).toBe('closed');
  });

  test('of several processes one probes: who does not get the lease stays refused', async () => {
    const holders: string[] = [];
    const lease = (owner: string) => async (): Promise<boolean> => holders.push(owner) === 1;
    const [mine, theirs] = ['mine', 'theirs'].map((owner) => {
      const breaker = new Breaker('x', consecutive, clock, undefined, lease(owner));
      made.push(breaker);
      return breaker;
    }) as [Breaker, Breaker];
    for (const breaker of [mine, theirs]) {
      for (let index = 0; index < 5; index += 1) await give(breaker, 'failure');
      await expect.poll(() => breaker.state, { interval: 5 }).toBe('half_open');
    }
    expect(await give(mine, 'success')).toEqual({ refused: false, value: 'success' });
    expect(await give(theirs, 'success')).toMatchObject({ refused: true });
    expect([mine.state, theirs.state]).toEqual(['closed', 'half_open']);
  });

  test('a peer may open it early, never for longer than its own rule, and never close it', async () => {
    const breaker = breakerOf(consecutive);
    breaker.openUntil(clock.now() + 3_600_000);
    expect(breaker.state).toBe('open');
    expect(breaker.retryAfterMs).toBeLessThanOrEqual(40);
    breaker.openUntil(clock.now() - 1);
    expect(breaker.state).toBe('open');
    await expect.poll(() => breaker.state, { interval: 5 }).toBe('half_open');
  });
});

test('a map keeps a bounded number of breakers and tells every transition with its key', async () => {
  const transitions: BreakerTransition[] = [];
  const map = new BreakerMap(consecutive, clock, (transition) => transitions.push(transition), {
    maxBreakers: 2,
  });
  for (let index = 0; index < 5; index += 1) await give(map.get('a'), 'failure');
  expect(map.stateOf('a')).toBe('open');
  expect(map.stateOf('never seen')).toBe('closed');
  expect(map.troubled()).toEqual([{ key: 'a', state: 'open', retryAfterMs: expect.any(Number) as number }]);
  expect(transitions).toEqual([{ key: 'a', state: 'open', openUntilAt: expect.any(Number) as number }]);
  map.get('b');
  map.get('c');
  expect(map.stateOf('a')).toBe('closed');
  map.openUntil('d', clock.now() + 1_000);
  expect(map.stateOf('d')).toBe('open');
  map.dispose();
});

test('the published figures', () => {
  expect(CONSECUTIVE_RULE).toEqual({ consecutiveFailures: 5, recoveryMs: 60_000 });
  expect(ERROR_RATE_RULE.errorRate).toEqual({ threshold: 0.5, windowMs: 30_000, minCalls: 20 });
});
