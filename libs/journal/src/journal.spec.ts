import { SystemClock } from '@toolfleet/resilience';
import { startRedis, type RedisServer } from '@toolfleet/testing';
import { journalConformance } from '@toolfleet/testing/conformance/journal';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { MemoryJournal } from '@toolfleet/testing/memory-journal';
import { RedisJournal } from './redis-journal.js';

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

const clock = new SystemClock();
journalConformance('memory', async () => ({ journal: new MemoryJournal(clock), now: () => clock.now() }));
journalConformance('redis', async () => ({
  journal: new RedisJournal(server.client(), clock),
  now: () => clock.now(),
}));

test('a key whose call was never entered is running until deadline + grace, then unknown', async () => {
  const redis = server.client();
  const journal = new RedisJournal(redis, clock);
  const ask = {
    callId: 'dead',
    tenantId: 'acme',
    tool: 't',
    deadlineAt: clock.now() - 4_700,
    repeatable: false,
    idempotencyKey: 'died',
    fingerprint: 'f',
  };
  await journal.accept(ask);
  await redis.del('{c:dead}'); // the process died between its two writes
  expect(await journal.find('acme', 'died', 'f')).toMatchObject({ kind: 'running', callId: 'dead' });
  await expect
    .poll(() => journal.find('acme', 'died', 'f'))
    .toMatchObject({ kind: 'finished', outcome: { failure: { code: 'OUTCOME_UNKNOWN' } } });
});

describe('a key whose gateway is gone', () => {
  const ask = (callId: string, more: object = {}) => ({
    ...{ callId, tenantId: 'acme', tool: 't', deadlineAt: clock.now() + 60_000, repeatable: false },
    ...{ idempotencyKey: 'left', fingerprint: 'f', ...more },
  });
  /** Journals of two gateways; `gone` has the ids of those that died. */
  async function twoGateways() {
    await server.flush();
    const gone = new Set<string>();
    const of = (own: string) =>
      new RedisJournal(server.client(), clock, undefined, undefined, undefined, { own, isGone: (id) => gone.has(id) });
    return { first: of('g1'), second: of('g2'), die: () => gone.add('g1') };
  }

  test('is taken over, and the first call cannot begin any more', async () => {
    const { first, second, die } = await twoGateways();
    await first.accept(ask('one'));
    expect(await second.accept(ask('two'))).toMatchObject({ kind: 'running', callId: 'one' });
    die();
    expect(await second.find('acme', 'left', 'f')).toEqual({ kind: 'unknown' });
    expect(await second.accept(ask('two'))).toEqual({ kind: 'accepted', fence: 1 });
    expect(await first.claim('one', 1)).toBe(false);
    // It was only suspended, and goes on.
    expect(await first.bump('one')).toEqual({ refused: 'cancelled' });
    expect(await first.accept(ask('one'))).toMatchObject({ kind: 'running', callId: 'two' });
    expect(await second.claim('two', 1)).toBe(true);
  });

  test('is taken over before its call is entered, and the call cannot enter', async () => {
    const { first, second, die } = await twoGateways();
    await first.accept(ask('one'));
    await server.client().del('{c:one}'); // suspended between its two writes
    die();
    expect(await second.accept(ask('two'))).toEqual({ kind: 'accepted', fence: 1 });
    expect(await first.accept({ ...ask('one'), idempotencyKey: undefined })).toEqual({
      kind: 'claimed',
      state: 'cancelled',
    });
    expect(await first.claim('one', 1)).toBe(false);
  });

  test.each([
    ['its effect has begun', {}, 'running'],
    ['its effect has begun and may be repeated', { repeatable: true }, 'accepted'],
    ['another gateway continues its call', { moves: true }, 'running'],
  ])('%s: the key is %s', async (what, more, kind) => {
    const { first, second, die } = await twoGateways();
    await first.accept(ask('one', more));
    if (!('moves' in more)) expect(await first.claim('one', 1), what).toBe(true);
    die();
    expect(await second.accept(ask('two', more))).toMatchObject({ kind });
  });

  test('of two calls that take it over one begins', async () => {
    const { first, second, die } = await twoGateways();
    await first.accept(ask('one'));
    die();
    const answers = await Promise.all(Array.from({ length: 20 }, (_, index) => second.accept(ask(`next-${index}`))));
    expect(answers.filter(({ kind }) => kind === 'accepted')).toHaveLength(1);
  });
});

test('a call that is withdrawn and tries again does not begin next to one that took its key', async () => {
  await server.flush();
  const journal = new RedisJournal(server.client(), clock);
  const ask = (callId: string) => ({
    ...{ callId, tenantId: 'acme', tool: 't', deadlineAt: clock.now() + 60_000, repeatable: false },
    ...{ idempotencyKey: 'raced', fingerprint: 'f' },
  });
  for (let round = 0; round < 50; round += 1) {
    const [again, other] = [`again-${round}`, `other-${round}`];
    await journal.accept(ask(again));
    await journal.withdraw(again, 'expired');
    const entered = await Promise.all([journal.accept(ask(again)), journal.accept(ask(other))]);
    const claims = await Promise.all(
      entered.map(
        (entry, index) => entry.kind === 'accepted' && journal.claim(index === 0 ? again : other, entry.fence),
      ),
    );
    expect(claims.filter(Boolean).length, `round ${round}: ${JSON.stringify(entered)}`).toBeLessThanOrEqual(1);
    await server.flush();
  }
});

test('claims of one turn are one script, and one that fails does not fail those before and after it', async () => {
  await server.flush();
  const redis = server.client();
  const journal = new RedisJournal(redis, clock);
  const scripts = async () => {
    const runs = [...(await redis.info('commandstats')).matchAll(/cmdstat_eval(?:sha)?:calls=(\d+)/g)];
    return runs.reduce((sum, [, calls]) => sum + Number(calls), 0);
  };
  const entry = { tenantId: 'acme', tool: 't', remainingMs: 60_000, deadlineAt: clock.now() + 60_000 };
  const claim = (callId: string) => journal.claim(callId, 1, 1, entry);
  await redis.set('{c:not-a-record}', 'x');
  const before = await scripts();
  const claims = await Promise.allSettled(['a', 'b', 'not-a-record', 'b', 'c'].map(claim));
  expect(await scripts()).toBe(before + 1);
  const refused = {
    status: 'rejected',
    reason: expect.objectContaining({ message: expect.stringMatching(/WRONGTYPE/) }),
  };
  const granted = (value: boolean) => ({ status: 'fulfilled', value });
  expect(claims).toEqual([granted(true), granted(true), refused, granted(false), granted(true)]);
});

test('every Redis key expires and each script uses one slot', async () => {
  await server.flush();
  const redis = server.client();
  const journal = new RedisJournal(redis, clock, { keyedMs: 50_000, otherMs: 10_000 });
  await journal.accept({
    callId: 'c-1',
    tenantId: 'a',
    tool: 't',
    deadlineAt: clock.now() + 1_000,
    repeatable: false,
    idempotencyKey: 'x y\n',
    fingerprint: 'f',
  });
  const keys = await redis.keys('*');
  expect(keys).toHaveLength(2);
  expect(keys).toContain('{c:c-1}');
  for (const key of keys) expect(await redis.pttl(key)).toBeGreaterThan(40_000);
});
