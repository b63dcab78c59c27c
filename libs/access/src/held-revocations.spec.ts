import { SUBJECTS } from '@toolfleet/contracts/subjects';
import { SystemClock } from '@toolfleet/resilience';
import { eventually, startNats, startRedis, type NatsServer, type RedisServer } from '@toolfleet/testing';
import { NatsClient } from '@toolfleet/transport';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import type { ApiKeyRecord } from './api-keys.js';
import { HeldRevocations } from './held-revocations.js';
import { RedisKeyStore } from './redis-key-store.js';

const key = (id: string): ApiKeyRecord => ({
  ...{ id, secretHash: 'h', tenantId: 'acme', userId: 'ann', client: id, roles: [], tools: ['*'] },
  ...{ createdAt: 1, createdBy: 'root', root: { tenantId: 'acme', userId: 'ann', kind: 'operator' } },
});

let redis: RedisServer;
let nats: NatsServer;
const open: (() => Promise<void>)[] = [];
beforeAll(async () => {
  [redis, nats] = await Promise.all([startRedis(), startNats()]);
});
afterAll(() => Promise.all([redis?.stop(), nats?.stop()]));
beforeEach(() => redis.flush());
afterEach(async () => {
  await acceptWrites(true);
  await Promise.all(open.splice(0).map((close) => close()));
});

const acceptWrites = (accept: boolean) => redis.client().config('SET', 'min-replicas-to-write', accept ? '0' : '1');

async function gateway() {
  const client = await NatsClient.connect({ url: nats.url, name: 'gateway' });
  const logger = { error: () => undefined, info: () => undefined };
  const store = new HeldRevocations(redis.client(), client, new SystemClock(), logger as never);
  const component = store.asComponent();
  await component.start?.();
  open.push(async () => {
    await component.stop?.();
    await client.close();
  });
  return { store, client };
}

it('holds a revocation on every gateway while Redis refuses writes, and stores it afterwards', async () => {
  const [one, other] = await Promise.all([gateway(), gateway()]);
  for (const id of ['aaaaaaaa', 'bbbbbbbb']) await one.store.create(key(id), 1);
  await acceptWrites(false);
  await expect(new RedisKeyStore(redis.client()).revoke('aaaaaaaa', 5)).rejects.toThrow(/NOREPLICAS/);
  expect(await one.store.revoke('aaaaaaaa', 5)).toBe(true);
  expect(await one.store.revoke('unknown0', 5)).toBe(false);
  expect(await one.store.find('aaaaaaaa')).toMatchObject({ revokedAt: 5 });
  expect(await one.store.create({ ...key('cccccccc'), parentId: 'aaaaaaaa' }, 6)).toBe('parent_ended');
  await eventually('the other gateway refuses it', async () => (await other.store.find('aaaaaaaa'))?.revokedAt === 5);
  const late = await gateway();
  await eventually('one that started later does, too', async () => (await late.store.list())[0]?.revokedAt === 5);
  expect((await late.store.find('bbbbbbbb'))?.revokedAt).toBeUndefined();
  await acceptWrites(true);
  await eventually('it is stored', async () => (await redis.client().hget('{auth}:revoked', 'aaaaaaaa')) === '5');
});

it('ignores malformed announcements', async () => {
  const { store, client } = await gateway();
  for (const id of ['aaaaaaaa', 'bbbbbbbb']) await store.create(key(id), 1);
  await acceptWrites(false);
  for (const body of [null, 7, {}, { revoked: [] }, { revoked: { 'a b': 1, aaaaaaaa: 'now' } }])
    client.publish(SUBJECTS.keyRevoked, body);
  client.publish(SUBJECTS.keyRevoked, { revoked: { bbbbbbbb: 9 } });
  await eventually('the last one is read', async () => (await store.find('bbbbbbbb'))?.revokedAt === 9);
  expect((await store.find('aaaaaaaa'))?.revokedAt).toBeUndefined();
});

it('passes the fault on when keys cannot be read either', async () => {
  const { client } = await gateway();
  const gone = new Redis(`redis://127.0.0.1:1`, { maxRetriesPerRequest: 0, retryStrategy: () => null });
  gone.on('error', () => undefined);
  const logger = { error: () => undefined, info: () => undefined };
  const store = new HeldRevocations(gone, client, new SystemClock(), logger as never);
  await expect(store.revoke('aaaaaaaa', 5)).rejects.toThrow();
});
