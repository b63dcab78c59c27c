import type { Principal } from '@toolfleet/contracts';
import { SystemClock } from '@toolfleet/resilience';
import { startRedis, type RedisServer } from '@toolfleet/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { DEFAULT_TIERS, limitedId, withTiers, RequestLimits, type KeyAllowance, type Tier } from './key-limits.js';
import { RedisKeyLimits } from './redis-key-limits.js';

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

const wide = { minute: 500, hour: 500, day: 500 };
const clock = new SystemClock();
async function gateway(): Promise<RedisKeyLimits> {
  const client = server.client();
  await client.ping();
  return new RedisKeyLimits(client, clock);
}

/** The windows follow the wall clock of Redis: none may end inside a test. */
async function farFromMinuteEnd(): Promise<void> {
  const client = server.client();
  await expect.poll(async () => Number((await client.time())[0]) % 60).toBeLessThan(45);
}

let keys = 0;
const newKey = () => `key-${(keys += 1)}`;
const inTurn = async (limits: RedisKeyLimits[], id: string, tier: Tier, times: number) => {
  const answers: (KeyAllowance | null)[] = [];
  for (let count = 0; count < times; count += 1) answers.push(await limits[count % limits.length]!.take(id, tier));
  return answers;
};

describe('requests of a key', () => {
  it.each([
    ['minute', 60],
    ['hour', 3_600],
    ['day', 86_400],
  ] as const)('are limited by %s over all gateways, and a refused one uses nothing up', async (window, seconds) => {
    await farFromMinuteEnd();
    const tier = { ...wide, [window]: 3 };
    const id = newKey();
    const answers = await inTurn([await gateway(), await gateway()], id, tier, 8);
    expect(answers.map((answer) => answer?.allowed)).toEqual([true, true, true, ...Array(5).fill(false)]);
    const now = Number((await server.client().time())[0]);
    for (const refused of answers.slice(3)) {
      expect(refused).toMatchObject({ window, resetAtSeconds: now - (now % seconds) + seconds });
      expect(refused?.retryAfterMs).toBeLessThanOrEqual(seconds * 1_000);
    }
    // Eight were asked, three counted: the same key in a wider tier goes on from there.
    expect(await (await gateway()).take(id, wide)).toMatchObject({ allowed: true, remainingHour: wide.hour - 4 });
  });

  it('share the remaining allowance exactly when they are simultaneous', async () => {
    await farFromMinuteEnd();
    const limits = await gateway();
    const id = newKey();
    const answers = await Promise.all(Array.from({ length: 50 }, () => limits.take(id, { ...wide, minute: 20 })));
    expect(answers.filter((answer) => answer?.allowed)).toHaveLength(20);
    expect(answers.slice(0, 3).map((answer) => answer?.remainingMinute)).toEqual([19, 18, 17]);
  });

  it('are leased in advance for large tiers, never beyond the limit', async () => {
    await farFromMinuteEnd();
    const tier = { minute: 1_200, hour: 10_000, day: 10_000 };
    const both = [await gateway(), await gateway()];
    const answers = await inTurn(both, newKey(), tier, 1_210);
    const allowed = answers.filter((answer) => answer?.allowed).length;
    expect(allowed).toBeLessThanOrEqual(1_200);
    expect(allowed).toBeGreaterThanOrEqual(1_200 - both.length);
  });

  it('of a batch are counted together or not at all', async () => {
    await farFromMinuteEnd();
    const limits = await gateway();
    const tier = { ...wide, minute: 100 };
    const id = newKey();
    expect(await limits.take(id, tier, 60)).toMatchObject({ allowed: true, remainingMinute: 40 });
    expect(await limits.take(id, tier, 60)).toMatchObject({ allowed: false, window: 'minute', remainingMinute: 40 });
    expect(await limits.take(id, tier, 40)).toMatchObject({ allowed: true, remainingMinute: 0 });
    expect(await limits.take(id, tier)).toMatchObject({ allowed: false, window: 'minute' });
    expect(await limits.take(newKey(), { ...tier, hour: 50 }, 60)).toMatchObject({ allowed: false, window: 'hour' });
  });

  it('are admitted while Redis is unavailable', async () => {
    const own = await startRedis();
    const client = own.client();
    await client.ping();
    const limits = new RedisKeyLimits(client, clock);
    expect(await limits.take('k', { ...wide, minute: 1 })).toMatchObject({ allowed: true });
    await own.stop();
    expect(await limits.take('k', { ...wide, minute: 1 })).toBeNull();
  });
});

describe('the allowance of a caller', () => {
  const caller: Principal = { tenantId: 'acme', userId: 'ann', roles: [], tools: ['*'], via: 'api_key', keyId: 'k1' };

  it('is shown in headers, and exceeded with the message of Shannon', async () => {
    await farFromMinuteEnd();
    const tiers = { ...DEFAULT_TIERS, free: { minute: 1, hour: 10, day: 10 } };
    const limits = new RequestLimits(await gateway(), tiers);
    const shown: Record<string, string>[] = [];
    const id = newKey();
    const ask = () => limits.count({ ...caller, keyId: id }, (header) => shown.push(header));
    await ask();
    expect(shown[0]).toEqual({
      'X-RateLimit-Limit-Minute': '1',
      'X-RateLimit-Remaining-Minute': '0',
      'X-RateLimit-Limit-Hour': '10',
      'X-RateLimit-Remaining-Hour': '9',
      'X-RateLimit-Reset': expect.stringMatching(/^\d+$/) as string,
    });
    await expect(ask()).rejects.toMatchObject({
      code: 'RATE_LIMITED',
      message: 'Rate limit exceeded: 1 requests per minute',
      details: { window: 'minute', limit: 1 },
    });
    expect(shown).toHaveLength(2);
  });

  it('counts the calls of a batch beyond its request, and names the size of a batch that does not fit', async () => {
    await farFromMinuteEnd();
    const tiers = { ...DEFAULT_TIERS, free: { minute: 50, hour: 500, day: 500 } };
    const limits = await gateway();
    const own = { ...caller, keyId: newKey() };
    const requests = new RequestLimits(limits, tiers);
    const count = (calls: number) => requests.countBatch(own, calls);
    await count(1);
    await count(0);
    await count(31);
    expect(await limits.take(own.keyId, tiers.free)).toMatchObject({ remainingMinute: 19 });
    await expect(count(100)).rejects.toMatchObject({
      code: 'RATE_LIMITED',
      message: 'Rate limit exceeded: 50 requests per minute; this batch has 100 calls, so send smaller ones',
      details: { window: 'minute', limit: 50, calls: 100 },
    });
  });

  it('belongs to the key, else to the user of the tenant', () => {
    expect(limitedId(caller)).toBe('k1');
    const { keyId: _key, ...user } = caller;
    expect(limitedId(user)).toBe('acme/ann');
  });

  it('is that of the named tier, else of administrators or NATS users, else the smallest', () => {
    const limits = new RequestLimits({ take: async () => null }, DEFAULT_TIERS);
    expect(limits.tier({ ...caller, tier: 'pro' })).toBe(DEFAULT_TIERS.pro);
    expect(limits.tier({ ...caller, roles: ['admin'] })).toBe(DEFAULT_TIERS.admin);
    expect(limits.tier({ ...caller, roles: ['admin'], tier: 'pro' })).toBe(DEFAULT_TIERS.pro);
    for (const via of ['nats_subject', 'local'] as const) {
      const { keyId: _key, ...keyless } = { ...caller, via };
      expect(limits.tier(keyless)).toBe(DEFAULT_TIERS.nats);
    }
    for (const tier of [undefined, 'gone']) {
      expect(limits.tier(tier === undefined ? caller : { ...caller, tier })).toBe(DEFAULT_TIERS.free);
    }
  });
});

describe('tiers of the configuration file', () => {
  it('default to those of Shannon; new tiers start from free', () => {
    expect(withTiers(undefined)).toEqual({
      free: { minute: 60, hour: 1_000, day: 10_000 },
      pro: { minute: 200, hour: 5_000, day: 50_000 },
      max: { minute: 300, hour: 10_000, day: 100_000 },
      enterprise: { minute: 500, hour: 20_000, day: 200_000 },
      admin: { minute: 1_000, hour: 100_000, day: 1_000_000 },
      nats: { minute: 10_000, hour: 300_000, day: 3_000_000 },
    });
    const tiers = withTiers({ pro: { requests_per_minute: 7 }, partner: { requests_per_day: 9 } });
    expect(tiers.pro).toEqual({ minute: 7, hour: 5_000, day: 50_000 });
    expect(tiers.partner).toEqual({ minute: 60, hour: 1_000, day: 9 });
  });
});
