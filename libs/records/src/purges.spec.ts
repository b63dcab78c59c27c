/** Purges over a real Redis, with steps of this spec: what a gateway that dies or a store that fails leaves to the next one. */
import { OPERATOR_TENANT, type Principal } from '@toolfleet/contracts';
import { SystemClock } from '@toolfleet/resilience';
import { eventually, startRedis, type RedisServer } from '@toolfleet/testing';
import type { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { OPERATOR } from '../../access/src/roles.js';
import { Purges, type PurgeStep } from './purges.js';
import { RedisPurgeStore } from './redis-purge-store.js';

const LEASE_MS = 300;
const POLL_MS = 50;
const CONFIRMED = { tenantId: 'acme', dryRun: false, confirm: 'acme' };

let server: RedisServer;
let redis: Redis;
const running: Purges[] = [];
const lines: Record<string, unknown>[] = [];
beforeAll(async () => {
  server = await startRedis();
  redis = server.client();
});
afterAll(() => server?.stop());
afterEach(async () => {
  await Promise.all(running.splice(0).map((purges) => purges.stop()));
  await redis.flushdb();
  lines.length = 0;
});

let oldestMs = 0;

/** A gateway with these steps. */
async function gateway(steps: readonly PurgeStep[], pollMs = POLL_MS): Promise<Purges> {
  const log = (fields: object, message: string) => void lines.push({ ...fields, message });
  const purges = new Purges({
    store: new RedisPurgeStore(redis, LEASE_MS),
    steps,
    keyIds: async () => ['k1'],
    clock: new SystemClock(),
    logger: { info: log, warn: log } as never,
    onAge: (ageMs) => void (oldestMs = ageMs),
    pollMs,
  });
  await purges.start();
  running.push(purges);
  return purges;
}

async function ended(purges: Purges, id: string) {
  await eventually('the purge has ended', async () => (await purges.get(OPERATOR, id)).state === 'done');
  return purges.get(OPERATOR, id);
}

/** A store of so many entries that a step removes two at a time. */
function entries(name: string, count: number): { step: PurgeStep; left: () => number } {
  let left = count;
  return {
    left: () => left,
    step: {
      name,
      async run(task) {
        if (task.dryRun) return task.count(name, left);
        while (left > 0) {
          left -= 2;
          await task.count(name, 2);
        }
      },
    },
  };
}

describe('purges', () => {
  it('are continued by another gateway from the first unfinished step, with their counts', async () => {
    const [first, second] = [entries('first', 4), entries('second', 6)];
    const dead: PurgeStep = {
      name: 'second',
      async run(task) {
        await task.count('second', 2);
        await new Promise(() => {}); // never goes on, as a process that was killed
      },
    };
    const killed = await gateway([first.step, dead], 60_000); // renews no lease
    running.length = 0;
    const { id } = await killed.request(OPERATOR, CONFIRMED);
    await eventually('it hangs', async () => (await killed.get(OPERATOR, id)).counts['second'] === 2);
    const other = await gateway([first.step, second.step]);
    expect(await ended(other, id)).toMatchObject({
      done: expect.arrayContaining(['first', 'second']),
      counts: { first: 4, second: 8 },
      remaining: {},
      finishedAt: expect.any(Number),
    });
    expect([first.left(), second.left()]).toEqual([0, 0]);
    expect(lines.map((line) => line['message'])).toEqual(['purge requested', 'purge finished']);
    expect(lines[1]).toMatchObject({ audit: 'chained', purged_tenant: 'acme', purge: id, counts: { first: 4 } });
  });

  it('repeat a step whose store fails, and show why they wait', async () => {
    let isDown = true;
    const store = entries('store', 2);
    const step: PurgeStep = {
      name: 'store',
      run: async (task) => {
        if (isDown) throw new Error('no responders');
        await store.step.run(task);
      },
    };
    const purges = await gateway([step]);
    const { id } = await purges.request(OPERATOR, CONFIRMED);
    await eventually('it shows why', async () => (await purges.get(OPERATOR, id)).error === 'store: no responders');
    await expect.poll(() => oldestMs, { message: 'its age is measured' }).toBeGreaterThan(0);
    isDown = false;
    expect(await ended(purges, id)).toMatchObject({ counts: { store: 2 }, error: undefined });
    await expect.poll(() => oldestMs).toBe(0);
  });

  it('are worked on by one gateway at a time', async () => {
    let most = 0;
    let now = 0;
    const step: PurgeStep = {
      name: 'slow',
      async run() {
        most = Math.max(most, (now += 1));
        await new Promise((resolve) => setTimeout(resolve, 2 * LEASE_MS));
        now -= 1;
      },
    };
    const [purges] = await Promise.all([gateway([step]), gateway([step]), gateway([step])]);
    const { id } = await purges!.request(OPERATOR, { ...CONFIRMED, dryRun: true });
    await ended(purges!, id);
    expect(most).toBe(1);
  });

  it('report what calls wrote meanwhile', async () => {
    const store = entries('rows', 2);
    let isLate = false;
    const step: PurgeStep = {
      name: 'rows',
      async run(task) {
        if (isLate) return task.count('rows', 1);
        await store.step.run(task);
        isLate = !task.dryRun;
      },
    };
    const purges = await gateway([step]);
    const { id } = await purges.request(OPERATOR, CONFIRMED);
    expect(await ended(purges, id)).toMatchObject({ counts: { rows: 2 }, remaining: { rows: 1 } });
  });

  it('need a confirmation and the right role', async () => {
    const purges = await gateway([]);
    const admin: Principal = { ...OPERATOR, tenantId: 'acme', roles: ['admin'] };
    const refusal = (caller: Principal, request: object) =>
      purges.request(caller, { tenantId: 'acme', dryRun: false, ...request }).then(
        () => undefined,
        (error: { code: string }) => error.code,
      );
    expect(await refusal(OPERATOR, {})).toBe('REQUEST_INVALID');
    expect(await refusal(OPERATOR, { userId: 'ann', confirm: 'acme' })).toBe('REQUEST_INVALID');
    expect(await refusal(OPERATOR, { tenantId: OPERATOR_TENANT, confirm: OPERATOR_TENANT })).toBe('REQUEST_INVALID');
    expect(await refusal(admin, { confirm: 'acme' })).toBe('PERMISSION_DENIED');
    expect(await refusal(admin, { tenantId: 'globex', userId: 'x', dryRun: true })).toBe('PERMISSION_DENIED');
    expect(await refusal(admin, { userId: 'ann', confirm: 'acme/ann' })).toBeUndefined();
    expect(await refusal(OPERATOR, { dryRun: true })).toBeUndefined();
    expect(lines.filter((line) => line['message'] === 'purge requested')).toHaveLength(2);
  });
});
