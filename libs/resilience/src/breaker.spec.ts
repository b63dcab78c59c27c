import { afterEach, describe, expect, test } from 'vitest';
import { BreakerMap, type BreakerTransition } from './breaker-map.js';
import { Breaker, type BreakerJudgement, type BreakerRule } from './breaker.js';
import { SystemClock } from '@toolfleet/base';

const clock = new SystemClock();
const made: Breaker[] = [];
afterEach(() => {
  for (const breaker of made.splice(0)) breaker.dispose();
});

function breakerOf(rule: BreakerRule, seen: string[] = []): Breaker {
  const breaker = new Breaker('x', rule, clock, { transition: (state) => seen.push(state) });
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
    const breaker = breakerOf({ ...consecutive, recoveryMs: 60_000 });
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

describe('by tenant', () => {
  const maps: BreakerMap[] = [];
  afterEach(() => {
    for (const map of maps.splice(0)) map.dispose();
  });
  const mapOf = (rule: BreakerRule, options: { maxBreakers?: number } = {}) => {
    const transitions: BreakerTransition[] = [];
    const map = new BreakerMap(rule, clock, (transition) => transitions.push(transition), options);
    maps.push(map);
    const call = (tenantId: string, outcome: BreakerJudgement = 'failure', key = 'k') =>
      map.run(
        { key, tenantId },
        async () => outcome,
        (value) => value,
      );
    const calls = async (count: number, tenantId: string, outcome?: BreakerJudgement, key?: string) => {
      for (let index = 0; index < count; index += 1) await call(tenantId, outcome, key);
    };
    return { map, transitions, call, calls };
  };
  const refused = { refused: true, retryAfterMs: expect.any(Number) as number };
  const slow: BreakerRule = { consecutiveFailures: 5, recoveryMs: 60_000 };
  const slowRate: BreakerRule = { errorRate: { threshold: 0.5, windowMs: 30_000, minCalls: 20 }, recoveryMs: 60_000 };

  test.each([
    ['in a row', slow],
    ['of the window', slowRate],
  ])('failures %s of one tenant refuse its own calls only, however many', async (_, rule) => {
    const { map, call, calls } = mapOf(rule);
    await call('other', 'success');
    await calls(1_000, 'loud');
    expect(await call('loud')).toEqual(refused);
    expect(await call('other', 'success')).toMatchObject({ refused: false });
    expect(await call('new', 'success')).toMatchObject({ refused: false });
    expect([map.getState('k', 'loud'), map.getState('k', 'other'), map.getState('k')]).toEqual([
      'open',
      'closed',
      'open',
    ]);
    expect(map.troubled()).toEqual([{ key: 'k', tenantId: 'loud', state: 'open', retryAfterMs: expect.any(Number) }]);
  });

  test('a second tenant that sees it open makes it open for all, also for those that never called', async () => {
    const { map, transitions, call, calls } = mapOf(slow);
    await call('third', 'success');
    await calls(5, 'one');
    await calls(4, 'two');
    expect(await call('third', 'success')).toMatchObject({ refused: false });
    await calls(5, 'two');
    for (const tenant of ['one', 'two', 'third', 'never seen']) expect(await call(tenant, 'success')).toEqual(refused);
    expect(map.troubled()).toEqual([{ key: 'k', state: 'open', retryAfterMs: expect.any(Number) }]);
    expect(transitions.slice(0, 3).map(({ tenantId, state }) => [tenantId, state])).toEqual([
      ['one', 'open'],
      ['two', 'open'],
      [undefined, 'open'],
    ]);
    expect(map.getState('another key', 'third')).toBe('closed');
  });

  test.each([
    ['in a row', slow, 2],
    ['of the window', slowRate, 1],
  ])('failures %s of many tenants open it for all, though none of them sees it open', async (_, rule, each) => {
    const { map, call, calls } = mapOf(rule);
    const tenants = Array.from({ length: 40 }, (_unused, index) => `t${index}`);
    for (const tenant of tenants) {
      if (map.getState('k', 'watcher') === 'open') break;
      await calls(each, tenant);
      if (rule.errorRate) await clock.sleep(8); // the share is looked at four times a second
    }
    expect(await call('watcher', 'success')).toEqual(refused);
  });

  test('the failures of one tenant among many are never the share of all calls', async () => {
    const { map, call, calls } = mapOf(slowRate);
    for (let round = 0; round < 30; round += 1) {
      for (const tenant of ['a', 'b', 'c', 'd']) await call(tenant, 'success');
      await calls(20, 'loud');
    }
    expect(map.getState('k', 'loud')).toBe('open');
    for (const tenant of ['a', 'b', 'c', 'd']) expect(map.getState('k', tenant)).toBe('closed');
  });

  test('after it was open for all, each tenant probes for itself, once; a failed probe refuses that tenant alone', async () => {
    const { map, call, calls } = mapOf({ consecutiveFailures: 2, recoveryMs: 300 });
    await call('good', 'success');
    await calls(2, 'one');
    await calls(2, 'two');
    expect(await call('good', 'success')).toEqual(refused);
    await expect.poll(() => map.getState('k', 'good'), { interval: 5 }).not.toBe('open');
    await call('one');
    expect(await call('one', 'success')).toEqual(refused);
    const both = await Promise.all([call('good', 'success'), call('good', 'success')]);
    expect(both.filter((outcome) => outcome.refused)).toHaveLength(1);
    expect(map.getState('k', 'good')).toBe('closed');
    expect(await call('good', 'success')).toMatchObject({ refused: false });
  });

  test('calls that succeeded before the first failure count', async () => {
    const { map, calls } = mapOf(slowRate);
    await calls(100, 'busy', 'success');
    await calls(20, 'busy');
    expect(map.getState('k', 'busy')).toBe('closed');
    await calls(80, 'busy');
    expect(map.getState('k', 'busy')).toBe('open');
  });

  test('a call knows that it is the probe', async () => {
    const { map, calls } = mapOf({ consecutiveFailures: 1, recoveryMs: 30 });
    await calls(1, 'one');
    await expect.poll(() => map.getState('k', 'one'), { interval: 5 }).toBe('half_open');
    const told: boolean[] = [];
    const run = () =>
      map.run(
        { key: 'k', tenantId: 'one' },
        async (isProbe) => told.push(isProbe),
        () => 'success',
      );
    await run();
    await run();
    expect(told).toEqual([true, false]);
  });

  test('a map keeps a bounded number of breakers and tells every transition with its key', async () => {
    const { map, transitions, calls } = mapOf(slow, { maxBreakers: 2 });
    await calls(5, 'one', 'failure', 'a');
    expect(map.getState('a')).toBe('open');
    expect(map.getState('never seen')).toBe('closed');
    const opened = { key: 'a', tenantId: 'one', state: 'open' };
    expect(transitions).toEqual([{ ...opened, openUntilAt: expect.any(Number) as number, worst: 'open' }]);
    await calls(1, 'one', 'failure', 'b');
    await calls(1, 'two', 'failure', 'b');
    expect(map.getState('a')).toBe('closed');
    map.openUntil('d', clock.now() + 1_000);
    expect([map.getState('d', 'any'), map.getState('d')]).toEqual(['open', 'open']);
  });

  test('a peer opens it for one tenant or for all, and not against a probe that succeeded here', async () => {
    const { map, call, calls } = mapOf({ consecutiveFailures: 1, recoveryMs: 200 });
    await call('two', 'success');
    map.openUntil('k', clock.now() + 10_000, 'one');
    expect([await call('one', 'success'), await call('two', 'success')]).toMatchObject([refused, { refused: false }]);
    expect(map.retryAfterMs({ key: 'k', tenantId: 'one' })).toBeLessThanOrEqual(200);
    await expect.poll(() => map.getState('k', 'one'), { interval: 5 }).toBe('half_open');
    await calls(1, 'one', 'success');
    map.openUntil('k', clock.now() + 10_000, 'one');
    map.openUntil('k', clock.now() + 10_000);
    expect([map.getState('k', 'one'), map.getState('k', 'two')]).toEqual(['closed', 'closed']);
  });
});
