import { DEFAULT_QUOTAS } from '@toolfleet/contracts/account';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Principal } from '@toolfleet/contracts';
import { FakeClock, startRedis } from '@toolfleet/testing';
import { ApiKeys, type ApiKeyRecord, type KeyStore } from './api-keys.js';
import { MemoryKeyStore } from '../../../test/doubles/memory-key-store.js';
import { PeopleRoles } from './redis-people-roles.js';
import { toKeySpec } from './key-rights.js';
import { RedisKeyStore } from './redis-key-store.js';

const NOW = 1_700_000_000_000;
const key = (id: string, more: Partial<ApiKeyRecord> = {}): ApiKeyRecord => ({
  id,
  secretHash: `hash of ${id}`,
  tenantId: 'acme',
  userId: 'ann',
  client: 'crm',
  roles: ['dev'],
  tools: ['*'],
  root: { tenantId: 'acme', userId: 'ann', kind: 'operator' },
  createdAt: NOW,
  createdBy: 'root',
  ...more,
});

/** What every store of keys keeps. */
function keyStoreConformance(name: string, open: () => Promise<KeyStore>): void {
  describe(`key store: ${name}`, () => {
    let store: KeyStore;
    beforeEach(async () => {
      store = await open();
    });

    it('gives back what was stored, and null for an unknown id', async () => {
      const full = key('aaaaaaaa', { tier: 'pro', parentId: 'operator', expiresAt: NOW + 1_000 });
      expect(await store.create(full, NOW)).toBe('created');
      expect(await store.find('aaaaaaaa')).toEqual(full);
      expect(await store.find('bbbbbbbb')).toBeNull();
    });

    it('creates no key by one that has ended or is unknown', async () => {
      await store.create(key('parent', { client: 'p', expiresAt: NOW + 10 }), NOW);
      await store.create(key('leaver', { client: 'p' }), NOW);
      expect(await store.create(key('a1', { parentId: 'parent' }), NOW + 9)).toBe('created');
      expect(await store.create(key('a2', { parentId: 'parent' }), NOW + 10)).toBe('parent_ended');
      expect(await store.create(key('a3', { parentId: 'unknown' }), NOW)).toBe('parent_ended');
      await store.revoke('leaver', NOW);
      expect(await store.create(key('a4', { parentId: 'leaver' }), NOW)).toBe('parent_ended');
    });

    it('refuses a taken id', async () => {
      await store.create(key('aaaaaaaa'), NOW);
      expect(await store.create(key('aaaaaaaa', { client: 'other' }), NOW)).toBe('id_taken');
      expect((await store.find('aaaaaaaa'))?.client).toBe('crm');
    });

    it('keeps at most two live keys per tenant and client under concurrent requests', async () => {
      const outcomes = await Promise.all(Array.from({ length: 10 }, (_, i) => store.create(key(`a${i}`), NOW)));
      expect(outcomes.filter((outcome) => outcome === 'created')).toHaveLength(2);
      expect(outcomes.filter((outcome) => outcome === 'too_many')).toHaveLength(8);
      expect(await store.create(key('b1', { tenantId: 'other' }), NOW)).toBe('created');
      expect(await store.create(key('c1', { client: 'other' }), NOW)).toBe('created');
    });

    it('counts the keys that users made for themselves apart, under clients of any name', async () => {
      const personal = (userId: string): Partial<ApiKeyRecord> => {
        const root = { tenantId: 'acme', userId, kind: 'creator' as const };
        return { userId, root, client: 'shared' };
      };
      for (const [n, more] of [personal('ann'), personal('bob'), { client: 'shared' }].entries()) {
        const outcomes = ['a', 'b', 'c'].map((id) => store.create(key(`${id}${n}`, more), NOW));
        expect(await Promise.all(outcomes)).toEqual(['created', 'created', 'too_many']);
      }
    });

    it('counts neither revoked nor expired keys as live', async () => {
      await store.create(key('a1', { expiresAt: NOW + 10 }), NOW);
      await store.create(key('a2'), NOW);
      expect(await store.create(key('a3'), NOW + 9)).toBe('too_many');
      expect(await store.create(key('a3'), NOW + 10)).toBe('created');
      await store.revoke('a2', NOW + 11);
      expect(await store.create(key('a4'), NOW + 11)).toBe('created');
      expect(await store.create(key('a5'), NOW + 11)).toBe('too_many');
    });

    it('bounds the keys of a tenant, and forgets ended ones without children first', async () => {
      const many = Array.from({ length: DEFAULT_QUOTAS.keys - 2 }, (_, index) =>
        key(`n${index}`, { client: `c${index}` }),
      );
      await store.create(key('parent', { client: 'p' }), NOW);
      await store.create(key('child', { client: 'q', parentId: 'parent' }), NOW);
      await store.revoke('parent', NOW);
      for (const each of many) await store.create(each, NOW);
      const next = key('next', { client: 'next' });
      expect(await store.create(next, NOW)).toBe('tenant_full');
      expect(await store.create(key('other', { tenantId: 'other' }), NOW)).toBe('created');
      await store.revoke('n0', NOW);
      expect(await store.create(next, NOW)).toBe('created');
      expect(await store.find('n0')).toBeNull();
      expect((await store.find('parent'))?.revokedAt).toBe(NOW);
      expect(await store.create(key('last', { client: 'last' }), NOW)).toBe('tenant_full');
    });

    it('revokes once: the first instant stays', async () => {
      await store.create(key('a1'), NOW);
      expect(await store.revoke('a1', NOW + 1)).toBe(true);
      expect(await store.revoke('a1', NOW + 2)).toBe(true);
      expect((await store.find('a1'))?.revokedAt).toBe(NOW + 1);
      expect(await store.revoke('zz', NOW)).toBe(false);
    });

    it('changes the rights of a key, and nothing that is noted of it', async () => {
      await store.create(key('a1'), NOW);
      await store.revoke('a1', NOW + 1);
      await store.touch('a1', NOW + 5);
      expect(await store.change(key('a1', { roles: ['admin'] }))).toBe(true);
      expect(await store.find('a1')).toMatchObject({ roles: ['admin'], revokedAt: NOW + 1, lastUsedAt: NOW + 5 });
      expect(await store.change(key('zz'))).toBe(false);
      expect(await store.find('zz')).toBeNull();
    });

    it('notes the latest use and never undoes a revocation with it', async () => {
      await store.create(key('a1'), NOW);
      await store.revoke('a1', NOW + 1);
      await store.touch('a1', NOW + 5);
      await store.touch('a1', NOW + 3);
      await store.touch('zz', NOW + 3);
      expect(await store.find('a1')).toMatchObject({ lastUsedAt: NOW + 5, revokedAt: NOW + 1 });
      expect(await store.find('zz')).toBeNull();
    });

    it('lists by tenant, oldest first', async () => {
      await store.create(key('b1', { createdAt: NOW + 2 }), NOW);
      await store.create(key('a1', { createdAt: NOW + 3 }), NOW);
      await store.create(key('c1', { tenantId: 'other', createdAt: NOW + 1 }), NOW);
      expect((await store.list('acme')).map(({ id }) => id)).toEqual(['b1', 'a1']);
      expect((await store.list()).map(({ id }) => id)).toEqual(['c1', 'b1', 'a1']);
      expect(await store.list('nobody')).toEqual([]);
    });
  });
}

keyStoreConformance('memory', async () => new MemoryKeyStore());

describe('on a real Redis', () => {
  let server: Awaited<ReturnType<typeof startRedis>>;
  let redis: Redis;
  beforeAll(async () => {
    server = await startRedis();
    redis = new Redis(server.url);
  });
  afterAll(async () => {
    redis.disconnect();
    await server.stop();
  });
  it('reads the keys of a tenant alone, and those of the fleet in pages', async () => {
    await redis.flushall();
    const store = new RedisKeyStore(redis);
    const others = Array.from({ length: 1_200 }, (_, at) =>
      key(`o${at}`, { tenantId: `t${at % 3}`, client: `c${at}` }),
    );
    for (const each of [...others, key('a1'), key('a2')]) await store.create(each, NOW);
    await store.list('acme'); // the first list looks whether all keys are in the sets of their tenants
    await redis.config('RESETSTAT');
    expect((await store.list('acme')).map(({ id }) => id)).toEqual(['a1', 'a2']);
    const stats = await redis.info('commandstats');
    expect(stats).not.toMatch(/cmdstat_(?:hgetall|hscan|hvals)/);
    expect(stats).toMatch(/cmdstat_hmget:calls=3,/);
    expect(await store.list()).toHaveLength(1_202);
    expect(await redis.info('commandstats')).not.toContain('cmdstat_hgetall');
  });
  keyStoreConformance('redis', async () => {
    await redis.flushall();
    return new RedisKeyStore(redis);
  });

  describe('keys of people who sign in', () => {
    const clock = new FakeClock(NOW);
    let keys: ApiKeys;
    let announce: (user: string, roles: string[]) => Promise<void>;
    beforeEach(async () => {
      await redis.flushall();
      let hear: (message: { body?: unknown }) => void;
      const nats = { subscribe: (_subject: string, received: typeof hear) => void (hear = received) };
      const roles = { lead: ['decide_calls', 'approve_tools'] as const };
      const people = new PeopleRoles(redis, nats, roles, { warn: () => undefined });
      await people.asComponent().start();
      announce = async (user_id, held) => {
        hear({ body: { tenant_id: 'acme', user_id, roles: held } });
        await redis.ping();
      };
      const settings = { pepper: 'a pepper of the spec', environment: 'test', people };
      keys = new ApiKeys(new RedisKeyStore(redis), settings, clock);
    });
    const person = (userId: string, roles: string[]): Principal => ({
      ...{ tenantId: 'acme', userId, roles, tools: ['*'], via: 'session', sessionId: 's' },
    });
    let made = 0;
    const mint = async (by: Principal, wanted: { userId?: string; roles?: string[] }) => {
      const spec = toKeySpec(by, { client: `c${(made += 1)}`, ...wanted });
      const { token, key: minted } = await keys.issue(spec, by.userId);
      const verify = async () => (await keys.verify(token)).principal;
      return { id: minted.id, verify, roles: async () => (await verify()).roles };
    };

    it('have the roles that their maker could give today, through all generations', async () => {
      const ann = person('ann', ['admin']);
      const bot = await mint(ann, { roles: ['admin', 'approver'] });
      const child = await mint(await bot.verify(), { roles: ['approver'] });
      const other = await mint(person('bob', ['admin']), { roles: ['admin'] });
      const operator: Principal = { ...person('ops', ['admin', 'operator']), tenantId: 'operator' };
      const vouched = await mint(operator, { tenantId: 'acme', userId: 'ann', roles: ['admin'] } as object);
      const ofVouched = await mint(await vouched.verify(), { roles: ['admin'] });
      const seen = () => Promise.all([bot, child, other, vouched, ofVouched].map((one) => one.roles()));
      const before = [['admin', 'approver'], ['approver'], ['admin'], ['admin'], ['admin']];
      expect(await seen()).toEqual(before);
      await announce('ann', ['admin']);
      expect(await seen()).toEqual(before);
      // A role of the configuration file covers the built-in one.
      for (const roles of [['approver'], ['lead']]) {
        await announce('ann', roles);
        expect(await seen()).toEqual([['approver'], ['approver'], ['admin'], ['admin'], ['admin']]);
      }
      await announce('ann', []);
      expect(await seen()).toEqual([[], [], ['admin'], ['admin'], ['admin']]);
      await announce('ann', ['admin']);
      expect(await seen()).toEqual(before);
    });

    it('are revoked with their maker, and with the user that they name', async () => {
      const ann = person('ann', ['admin']);
      const bob = { ...person('bob', ['admin']), rights: ['mint_for_users'] as const };
      const bot = await mint(ann, { roles: ['admin'] });
      const named = await mint(bob, { userId: 'ann', roles: ['admin'] });
      const ofNamed = await mint(await named.verify(), {});
      const other = await mint(bob, { userId: 'bob' });
      const revoked = await keys.revokeOf('acme', 'ann');
      expect(revoked.map(({ id }) => id).toSorted()).toEqual([bot.id, named.id, ofNamed.id].toSorted());
      for (const gone of [bot, named, ofNamed])
        await expect(gone.verify()).rejects.toMatchObject({ code: 'UNAUTHENTICATED' });
      expect((await other.verify()).userId).toBe('bob');
      expect([await keys.revokeOf('acme', 'ann'), await keys.revokeOf('globex', 'bob')]).toEqual([[], []]);
    });
  });
});
