/**
 * deploy/redis.acl.template on a real server: every user tries every other one's keys and channels and the commands no user
 * may use; then the queue and the journal work between the users that share them.
 */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { RedisJournal } from '@toolfleet/journal';
import { closeRedis, connectRedis, JobQueue, JobWorker, openRedis, RedisTime, ReplyChannel } from '@toolfleet/queue';
import { SystemClock } from '@toolfleet/resilience';
import { passwordFor, startRedis, type RedisServer } from '@toolfleet/testing';
import { KEYS, keyStarts, NOT_KEYS } from './fleet/redis-keys.js';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const TEMPLATE = readFileSync(new URL('../deploy/redis.acl.template', import.meta.url), 'utf8');

const CHANNELS: Record<string, string[]> = {
  '{fleet}:reply:python-runs:g1': ['gateway', 'python-sandbox'],
  '{fleet}:reply:program-runs:g1': ['gateway', 'python-sandbox'],
  '{fleet}:program-runs:cancel': ['gateway', 'python-sandbox'],
  '{fleet}:program-runs:answers:w1': ['gateway', 'python-sandbox'],
  '{fleet}:reply:agent-runs:g1': ['gateway', 'builtin-agent'],
  '{fleet}:reply:x': ['gateway'],
  '{fleet}:python-runs:cancel': ['gateway', 'python-sandbox'],
  '{fleet}:agent-runs:cancel': ['gateway', 'builtin-agent'],
  '{fleet}:tool-calls:cancel': ['gateway'],
  '{fleet}:other:cancel': [],
  '__keyspace@0__:rl:acme:calculator': [],
  anything: [],
};
/** Commands without a key that every service may use; all others without one are refused. */
const KEYLESS = [
  ...['auth', 'echo', 'hello', 'ping', 'quit', 'reset', 'select', 'client|getname', 'client|getredir', 'client|id'],
  ...['client|info', 'client|reply', 'client|setinfo', 'client|setname', 'client|trackinginfo'],
  ...['discard', 'exec', 'multi', 'unwatch', 'script|exists', 'script|load'],
  ...['publish', 'subscribe', 'unsubscribe', 'time', 'info', 'wait', 'cluster|info', 'cluster|slots'],
  ...['asking', 'readonly', 'readwrite'],
];
const SERVICES = [
  'gateway',
  'registry',
  'budget',
  'mcp-executor',
  'openapi-executor',
  'builtin-files',
  'builtin-agent',
  'python-sandbox',
];
/**
 * Who may look at a key and not change it: the registry marks execute_python unavailable while no sandbox writes, and every service
 * compares what Redis holds with the epoch that budget writes.
 */
const READERS: Record<string, string[]> = {
  '{fleet}:python-runs:slots': ['registry'],
  '{store}:epoch': SERVICES.filter((user) => user !== 'budget'),
};
const NOBODY = [
  'FLUSHALL',
  'FLUSHDB',
  'KEYS *',
  'CONFIG GET *',
  'CONFIG SET maxmemory 1',
  'SCRIPT FLUSH',
  'FUNCTION FLUSH',
  'SHUTDOWN',
  'ACL LIST',
  'ACL SETUSER x on',
  'CLIENT LIST',
  'CLIENT KILL TYPE normal',
  'MONITOR',
  'REPLICAOF NO ONE',
  'SWAPDB 0 1',
  'MIGRATE h 1 k 0 1',
  'SAVE',
  'CLUSTER RESET',
  'MODULE LIST',
  'PSUBSCRIBE *',
  'PSUBSCRIBE {fleet}:reply:*',
  'SCAN 0',
  'RANDOMKEY',
  'DBSIZE',
  'PUBSUB CHANNELS',
  'PUBSUB NUMSUB x',
  'CLIENT TRACKING on BCAST',
  'CLUSTER GETKEYSINSLOT 1 10',
  'OBJECT HELP',
  'FUNCTION LIST',
  'COMMAND COUNT',
];

let server: RedisServer;
let admin: Redis;
const open: Redis[] = [];

/** A connection of a user, or one without a login. */
function as(user?: string, password = user && passwordFor(user)): Redis {
  const client = new Redis({
    port: server.port,
    host: '127.0.0.1',
    username: user,
    password,
    enableReadyCheck: false,
    maxRetriesPerRequest: 0,
    retryStrategy: () => null,
  });
  client.on('error', () => undefined);
  open.push(client);
  return client;
}

/** Undefined when the command was allowed, whatever it answered; else what the server refused. */
async function refusal(client: Redis, command: string, ...args: string[]): Promise<string | undefined> {
  try {
    await client.call(command, ...args);
    return undefined;
  } catch (error) {
    const { message } = error as Error;
    return /NOPERM|The user executing the script can't/.test(message) ? `NOPERM ${message}` : undefined;
  }
}

/** An entry of the answer to COMMAND: name, arity, flags, first key, …, key specifications (8), subcommands (9). */
type CommandInfo = [name: string, arity: number, flags: string[], firstKey: number, ...unknown[]];

/** A command and its subcommands as far as they name no key, with arguments that satisfy their arity. */
function keylessIn(info: CommandInfo): { name: string; args: string[] }[] {
  const [name, arity, flags, firstKey] = info;
  const subcommands = info[9] as CommandInfo[];
  if (subcommands.length > 0) return subcommands.flatMap(keylessIn);
  const namesKeys = firstKey > 0 || flags.includes('movablekeys') || (info[8] as unknown[]).length > 0;
  if (namesKeys || name.endsWith('|help')) return [];
  return [{ name, args: Array.from({ length: Math.abs(arity) - name.split('|').length }, () => 'x') }];
}

beforeAll(async () => {
  server = await startRedis({ appendOnly: true });
  admin = server.client();
});
afterAll(async () => {
  for (const client of open) client.disconnect();
  await server?.stop();
});

describe('keys in the sources', () => {
  const made = globSync(['{apps,libs,libs/kits}/*/src/**/*.ts', '{apps,libs}/*/lua/**/*.lua'], { cwd: ROOT })
    .filter((path) => !/\.(?:spec|fixture|py)\.ts$/.test(path) && !path.startsWith('libs/testing/'))
    .flatMap((path) => keyStarts(readFileSync(join(ROOT, path), 'utf8')));

  it('have a row in the table above, and with it a user in the template', () => {
    const known = (start: string) => Object.keys(KEYS).some((key) => key.startsWith(start));
    expect(new Set(made).size).toBeGreaterThan(8);
    expect([...new Set(made)].filter((start) => !known(start) && !NOT_KEYS.includes(start))).toEqual([]);
  });

  it('would be noticed when they are new', () => {
    const planted = "const HOLD = 'hold:all';\nconst tag = (id: string) => `{h:${id}}`;\nconst k = `held:${id}`;";
    expect(keyStarts(planted)).toEqual(['hold:', '{h:', 'held:']);
  });

  it('have a row for each pattern of the template', () => {
    const patterns = new Set([...TEMPLATE.matchAll(/ ~(\S+)\*/g)].map(([, start]) => start!));
    const startsKey = (start: string) =>
      Object.keys(KEYS).some((key) => key.startsWith(start.replace('[0-9][0-9]', '01')));
    const lacking = [...patterns].filter((start) => !startsKey(start));
    expect(lacking).toEqual([]);
  });
});

describe('deploy/redis.acl.template', () => {
  it.each(SERVICES)('%s touches its own keys and channels and no other', async (user) => {
    const client = as(user);
    for (const [key, users] of Object.entries(KEYS)) {
      const refused = [
        await refusal(client, 'EXISTS', key),
        await refusal(client, 'DEL', key),
        await refusal(client, 'EVAL', "return redis.call('EXISTS', KEYS[1])", '1', key),
        await refusal(client, 'EVAL', `return redis.call('EXISTS', '${key}')`, '0'),
      ];
      expect(
        refused.map((reason) => reason === undefined),
        `${user} ${key}`,
      ).toEqual(READERS[key]?.includes(user) ? [true, false, false, true] : refused.map(() => users.includes(user)));
    }
    for (const [channel, users] of Object.entries(CHANNELS)) {
      const subscriber = as(user);
      const refused = [await refusal(client, 'PUBLISH', channel, 'x'), await refusal(subscriber, 'SUBSCRIBE', channel)];
      const allowed = refused.map((reason) => reason === undefined);
      expect(allowed, `${user} ${channel}`).toEqual(refused.map(() => users.includes(user)));
    }
  });

  it.each([...SERVICES, 'autoscaler'])('%s uses none of the forbidden commands', async (user) => {
    const client = as(user);
    for (const command of NOBODY) {
      const [name, ...args] = command.split(' ');
      expect(await refusal(client, name!, ...args), `${user} ${command}`).toContain('NOPERM');
    }
  });

  it('purge lists keys, reads fields of those of calls and deletes them, and does nothing else', async () => {
    const client = as('purge');
    const own = ['rl:', 'rc:', '{call:', '{i:', '{c:', '{s:'];
    for (const key of Object.keys(KEYS)) {
      const refused = [await refusal(client, 'HMGET', key, 'tenant'), await refusal(client, 'UNLINK', key)];
      const isOwn = own.some((start) => key.startsWith(start));
      const allowed = refused.map((reason) => reason === undefined);
      expect(allowed, key).toEqual([isOwn || /^\{fleet(?:-\d\d)?\}:/.test(key), isOwn]);
    }
    expect(await refusal(client, 'SCAN', '0')).toBeUndefined();
    for (const command of [...NOBODY.filter((one) => one !== 'SCAN 0'), 'HGETALL {c:c1}', 'GET rc:hash', 'EVAL 1 0']) {
      const [name, ...args] = command.split(' ');
      expect(await refusal(client, name!, ...args), command).toContain('NOPERM');
    }
  });

  it.each(SERVICES)('%s uses no command without a key but those that clients need', async (user) => {
    const keyless = ((await admin.call('COMMAND')) as CommandInfo[]).flatMap(keylessIn);
    expect(keyless.length).toBeGreaterThan(60);
    const allowed: string[] = [];
    for (const { name, args } of keyless) {
      const answer = (await admin.call('ACL', 'DRYRUN', user, ...name.split('|'), ...args)) as string;
      // Channels are refused by themselves: the command itself is still allowed.
      if (answer === 'OK' || /to access the/.test(answer)) allowed.push(name);
      else expect(answer, name).toMatch(/no permissions to run/);
    }
    const known = new Set(keyless.map(({ name }) => name));
    expect(allowed.toSorted()).toEqual(KEYLESS.filter((name) => known.has(name)).toSorted());
  });

  it('gives all services the same commands', () => {
    const rules = TEMPLATE.split('\n').filter((line) => SERVICES.some((user) => line.startsWith(`user ${user} `)));
    expect(rules).toHaveLength(SERVICES.length);
    expect(new Set(rules.map((line) => line.slice(line.indexOf('-@all')))).size).toBe(1);
  });

  it('lets the autoscaler count, and nothing else', async () => {
    const client = as('autoscaler');
    for (const command of ['LLEN', 'ZCARD', 'TYPE'])
      expect(await refusal(client, command, '{fleet}:python-runs:wait')).toBeUndefined();
    for (const command of ['GET', 'DEL', 'LPOP', 'HGETALL'])
      expect(await refusal(client, command, '{fleet}:python-runs:wait')).toContain('NOPERM');
    expect(
      await refusal(client, 'EVAL', "return redis.call('DEL', KEYS[1])", '1', '{fleet}:python-runs:wait'),
    ).toContain('NOPERM');
    expect(await refusal(client, 'LLEN', '{b:acme}:scopes')).toContain('NOPERM');
  });

  it('refuses the default user, a wrong password and users that are not named', async () => {
    const refused = [as('default', ''), as('default', 'x'), as('gateway', 'wrong'), as('builtin-web', 'x')];
    for (const client of refused) await expect(client.ping()).rejects.toThrow();
  });

  it('gives the rights of the default user to no connection without a login', async () => {
    const client = as('gateway');
    await client.ping();
    // Ends the login: from here on Redis takes the connection for one of the default user.
    await client.call('RESET');
    for (const command of ['PING', 'GET anything', 'MULTI', 'EVAL 1 0', 'ACL WHOAMI']) {
      const [name, ...args] = command.split(' ');
      await expect(client.call(name!, ...args), command).rejects.toThrow('NOAUTH');
    }
    await expect(as().ping()).rejects.toThrow('NOAUTH');
  });

  it('carries a job from the gateway to the sandbox and its answer back', async () => {
    const clock = new SystemClock();
    const connect = async (user: string, role: 'commands' | 'blocking') => {
      const url = `redis://${user}:${passwordFor(user)}@127.0.0.1:${server.port}`;
      const client = connectRedis(url, { name: user, role });
      await openRedis(client, url);
      return client;
    };
    const [gateway, waiting] = [await connect('gateway', 'commands'), await connect('gateway', 'blocking')];
    const [sandbox, taking] = [
      await connect('python-sandbox', 'commands'),
      await connect('python-sandbox', 'blocking'),
    ];
    const [gatewayTime, sandboxTime] = [new RedisTime(gateway, clock), new RedisTime(sandbox, clock)];
    await Promise.all([gatewayTime.start(), sandboxTime.start()]);
    const replies = new ReplyChannel({ redis: waiting, queues: ['python-runs'] });
    await replies.start();
    const queue = new JobQueue<{ call_id: string; attempt: number }, unknown>({
      name: 'python-runs',
      redis: gateway,
      time: gatewayTime,
      maxLength: 5,
    });
    const worker = new JobWorker<{ call_id: string; attempt: number }, unknown>({
      queue: 'python-runs',
      redis: taking,
      publisher: sandbox,
      time: sandboxTime,
      concurrency: 1,
      handler: async ({ data }) => ({ ran: data.call_id }),
    });
    await worker.start();
    const answer = await replies.submit(queue, { call_id: 'c1', attempt: 1 }, { deadlineAt: clock.now() + 10_000 });
    expect(answer).toEqual({ ran: 'c1' });
    await worker.stop();
    await queue.close();
    await replies.stop();
    gatewayTime.stop();
    sandboxTime.stop();
    await Promise.all([gateway, waiting, sandbox, taking].map((client) => closeRedis(client)));
  });

  it('lets an executor claim what the gateway accepted', async () => {
    const clock = new SystemClock();
    const gateway = new RedisJournal(as('gateway'), clock);
    const executor = new RedisJournal(as('mcp-executor'), clock);
    const ask = { callId: 'c9', tenantId: 'acme', tool: 'x', deadlineAt: clock.now() + 10_000, repeatable: false };
    const accepted = await gateway.accept({ ...ask, idempotencyKey: 'k1', fingerprint: 'f1' });
    expect(accepted).toMatchObject({ kind: 'accepted' });
    expect(await executor.claim('c9', (accepted as { fence: number }).fence)).toBe(true);
  });
});
