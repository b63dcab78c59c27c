/**
 * Redis with the ACL file of deploy/, restarted on its append-only file: it has all keys again, and so has its replica. Redis replays
 * the file as the default user. Logins as that user are refused; without its rights Redis would refuse MULTI/EXEC and scripts of the file.
 */
import { globSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { ApiKeys, RedisKeyStore } from '@toolfleet/access';
import { succeeded } from '@toolfleet/contracts';
import { RedisJournal } from '@toolfleet/journal';
import { JobQueue, RedisTime } from '@toolfleet/queue';
import { RedisPurgeStore } from '@toolfleet/records';
import { SystemClock } from '@toolfleet/resilience';
import {
  findRedisServers,
  redisUsers,
  startRedis,
  type RedisServer,
  type RedisServerOptions,
} from '@toolfleet/testing';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { RedisReservationStore } from '../apps/budget/src/redis-reservation-store.js';
import { unlimited } from '../apps/budget/src/limits.js';
import { DEFAULT_RULES } from '../apps/budget/src/reservation-store.js';
import { redisContents, restartRedis, unexpired, type RedisContents } from './fleet/redis-contents.js';

const DEPLOY = fileURLToPath(new URL('../deploy/', import.meta.url));
const CALL = { callId: 'c1', tenantId: 'acme', tool: 'x', repeatable: false, idempotencyKey: 'k1', fingerprint: 'f1' };
const PURGE = { id: 'p1', tenantId: 'acme', dryRun: false, pseudonym: 'x', requestedBy: 'ops', requestedAt: 1 };
const SCOPES = { tenant_id: 'acme', request_id: 'c1' };
const clock = new SystemClock();

let users: string[];
const servers: RedisServer[] = [];
const clients: Redis[] = [];
beforeAll(async () => {
  users = await redisUsers();
});
afterAll(async () => {
  for (const client of clients) client.disconnect();
  await Promise.all(servers.map((server) => server.stop()));
});

async function start(options: RedisServerOptions = {}): Promise<RedisServer> {
  const server = await startRedis({ appendOnly: true, ...options });
  servers.push(server);
  return server;
}

function as(user: string, server: RedisServer): Redis {
  const client = new Redis(server.urlAs(user)!);
  client.on('error', () => undefined);
  clients.push(client);
  return client;
}

/** A key of each pattern that a user may write. */
const keysOf = (line: string): string[] =>
  line
    .split(' ')
    .filter((rule) => /^~.*\*$/.test(rule))
    .map((rule) => `${rule.slice(1, -1).replace('[0-9][0-9]', '01')}restart`);

/** Writes four keys: two by MULTI/EXEC and two by a script, one of each with an expiry. */
async function writeFour(redis: Redis, key: string): Promise<void> {
  const [exec, execExpires] = [`${key}-exec`, `${key}-exec-expires`];
  const [script, scriptExpires] = [`${key}-script`, `${key}-script-expires`];
  await redis.multi().set(exec, '1').hset(execExpires, 'field', 'value').pexpire(execExpires, 3_600_000).exec();
  await redis.eval(
    "redis.call('RPUSH', KEYS[1], 'a', 'b') redis.call('SADD', KEYS[2], 'x') redis.call('PEXPIRE', KEYS[2], 3600000)",
    ...[2, script, scriptExpires],
  );
}

async function expectUnchanged(server: RedisServer, before: RedisContents): Promise<void> {
  const after = await redisContents(server.client());
  const now = Date.now();
  expect(unexpired(after, now)).toEqual(unexpired(before, now));
}

/** Parts of the product that write several keys in one step. */
function productOn(server: RedisServer) {
  const gateway = as('gateway', server);
  const time = new RedisTime(gateway, clock);
  const queue = new JobQueue<{ call_id: string; attempt: number }>({ name: 'python-runs', redis: gateway, time });
  return {
    keys: new ApiKeys(new RedisKeyStore(gateway), { pepper: 'a-pepper-for-tests', environment: 'test' }, clock),
    journal: new RedisJournal(gateway, clock),
    purges: new RedisPurgeStore(gateway),
    budget: new RedisReservationStore(as('budget', server), DEFAULT_RULES, async () => []),
    time,
    queue,
    stop: async () => {
      await queue.close();
      time.stop();
    },
  };
}

const CASES = findRedisServers().flatMap(({ kind, program }) =>
  (['a clean shutdown', 'SIGKILL'] as const).map((end) => ({ kind, program, end })),
);
/** Skipped on a machine without the kind of server: put it on the path, or into TEST_REDIS_SERVERS. */
describe.each(CASES)('$kind with the users of deploy/ after $end', ({ program, end }) => {
  if (!program) return it.skip('has no such server on this machine', () => undefined);

  let primary: RedisServer;
  let replica: RedisServer;
  let before: RedisContents;
  let token: string;
  beforeAll(async () => {
    primary = await start({ program });
    replica = await start({ program, replicaOf: primary.port });
    const writers = users.filter((line) => line.includes('+@transaction'));
    expect(writers).toHaveLength(8);
    for (const line of writers) for (const key of keysOf(line)) await writeFour(as(line.split(' ')[1]!, primary), key);
    const product = productOn(primary);
    await product.time.start();
    ({ token } = await product.keys.issue({ tenantId: 'acme', client: 'app' }, 'ops'));
    const accepted = await product.journal.accept({ ...CALL, deadlineAt: clock.now() + 10_000 });
    await product.journal.finish(CALL.callId, (accepted as { fence: number }).fence, succeeded({ output: 42 }));
    for (const call_id of ['j1', 'j2']) await product.queue.add(call_id, { call_id, attempt: 1 });
    await product.purges.create({ ...PURGE, state: 'running', done: [], counts: {}, remaining: {}, keyIds: [] });
    const reservation = { call_id: 'c1', micro_usd: 50, tokens: 0, lease_ms: 60_000, scopes: SCOPES };
    expect(await product.budget.reserve('acme', unlimited(), [reservation])).toEqual([{ admitted: true }]);
    await product.stop();
    await primary.replicated();
    before = await redisContents(primary.client());
    await restartRedis(primary, end);
  });

  it('has all keys with their content and expiry', async () => {
    // Four keys for each pattern that a service may write, and the product's keys.
    expect(Object.keys(before).length).toBeGreaterThan(100);
    await expectUnchanged(primary, before);
    expect(await primary.client().call('ACL', 'LOG')).toEqual([]);
  });

  it('has them on the replica as well', async () => {
    await primary.replicated();
    await expectUnchanged(replica, before);
    expect(await replica.client().call('ACL', 'LOG')).toEqual([]);
  });

  it('serves what the product wrote', async () => {
    const product = productOn(primary);
    await product.time.start();
    expect((await product.keys.verify(token)).principal.tenantId).toBe('acme');
    const repeated = await product.journal.accept({ ...CALL, callId: 'c2', deadlineAt: clock.now() + 10_000 });
    expect(repeated).toMatchObject({ kind: 'finished', callId: 'c1', outcome: { output: 42 } });
    expect(await product.queue.counts()).toMatchObject({ wait: 2 });
    expect(await product.purges.open()).toEqual([PURGE.id]);
    const tenant = (await product.budget.counters('acme', [])).find((one) => one.scope === 'tenant');
    expect(tenant).toMatchObject({ heldMicroUsd: 50 });
    await product.stop();
  });
});

describe('the default user in the ACL templates of deploy/', () => {
  it.each(globSync('**/*.acl.template', { cwd: DEPLOY }))('is off and keeps all rights: %s', (path) => {
    const lines = readFileSync(DEPLOY + path, 'utf8').split('\n');
    const ofDefault = lines.filter((line) => line.startsWith('user default'));
    // The users of a replica are appended to the other template.
    expect(ofDefault).toEqual(path.startsWith('redis-failover') ? [] : ['user default off ~* &* +@all']);
  });

  it('without rights loses what was written in one step, until Redis restarts with them', async () => {
    const server = await start({ users: users.map((line) => line.replace(/^user default .*/, 'user default off')) });
    await writeFour(as('registry', server), '{registry}:restart');
    const before = await redisContents(server.client());
    expect(Object.keys(before)).toHaveLength(4);
    await server.restart();
    const admin = server.client();
    expect(await redisContents(admin)).toEqual({});
    // This is where the runbook sends operators.
    const refusals = JSON.stringify(await admin.call('ACL', 'LOG'));
    expect(refusals).toMatch(/"context","multi".*"username","default".*cmd=exec/);
    await admin.set('{registry}:later', '1');
    const later = await redisContents(admin);
    await admin.call('ACL', 'SETUSER', 'default', 'off', '~*', '&*', '+@all');
    await admin.call('ACL', 'SAVE');
    await server.restart();
    await expectUnchanged(server, { ...before, ...later });
  });
});
