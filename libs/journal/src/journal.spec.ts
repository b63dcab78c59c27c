import { SystemClock } from '@toolfleet/resilience';
import { startRedis, type RedisServer } from '@toolfleet/testing';
import { journalConformance } from '@toolfleet/testing/conformance/journal';
import { afterAll, beforeAll, expect, test } from 'vitest';
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
