/** NATS and Redis with the users and rights of deploy/, for fleets whose services each connect as themselves. */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  endChild,
  eventually,
  freePort,
  spawnChild,
  startNatsCluster,
  startRedis,
  type NatsCluster,
} from '@toolfleet/testing';
import { tmpdir } from 'node:os';
import { Redis } from 'ioredis';
import { redisContents, restartRedis, type RedisContents, type RedisEnd } from './redis-contents.js';

const DEPLOY = fileURLToPath(new URL('../../deploy', import.meta.url));

/** Brokers that run with the files of deploy/. */
export interface DeployedBrokers {
  /** Without a login: each service brings its own (`envOf`). */
  nats: { url: string };
  redis: { url: string; client(): Redis };
  /** Logins of one user at both servers; a user one of them does not know has no login there. */
  envOf(user: string): Record<string, string>;
  natsLogin(user: string): { url: string; user: string; password: string };
  /** Restarts NATS with another password of one user: it reads them from its environment, so a reload would not do. */
  changeNatsPassword(user: string, password: string): Promise<void>;
  /** Changes a user of Redis, as its administrator may: `>new` adds a password, `<old` takes one away. */
  changeRedisUser(user: string, ...rules: string[]): Promise<void>;
  /** Restarts Redis on its data, after a clean shutdown or after SIGKILL. */
  restartRedis(after: RedisEnd): Promise<void>;
  /** All keys of Redis. */
  redisContents(): Promise<RedisContents>;
  /** What Redis refused, by `ACL LOG`. */
  redisRefusals(): Promise<string[]>;
  /** What NATS refused, by its log. */
  natsRefusals(): Promise<string[]>;
  stop(): Promise<void>;
}

/** Password of a user in these files. */
export const passwordFor = (user: string): string => `pw-${user}`;

/** Starts both servers on free loopback ports. */
export async function startDeployedBrokers(): Promise<DeployedBrokers> {
  const [nats, redis] = [await startDeployedNats(), await startDeployedRedis()];
  return {
    nats,
    redis,
    envOf: (user) => ({
      ...(nats.users.has(user) ? { NATS_USER: user, NATS_PASSWORD: passwordFor(user) } : {}),
      ...(redis.users.has(user)
        ? {
            REDIS_URL: redis.url.replace('//', `//${user}@`),
            REDIS_PASSWORD: passwordFor(user),
            ...(user === 'gateway' ? { REDIS_PURGE_PASSWORD: passwordFor('purge') } : {}),
          }
        : { REDIS_URL: '' }),
    }),
    natsLogin: (user) => ({ url: nats.url, user, password: passwordFor(user) }),
    changeNatsPassword: nats.changePassword,
    changeRedisUser: redis.changeUser,
    restartRedis: redis.restart,
    redisContents: redis.contents,
    redisRefusals: redis.refusals,
    natsRefusals: nats.refusals,
    stop: async () => void (await Promise.all([nats.stop(), redis.stop()])),
  };
}

/** Users of deploy/nats.conf with the variables that hold their passwords, quoted as the server wants them. */
async function natsUsers(): Promise<Map<string, [key: string, value: string]>> {
  const text = await readFile(join(DEPLOY, 'nats.conf'), 'utf8');
  const found = [...text.matchAll(/user: ([\w-]+), password: \$(\w+)/g)];
  return new Map(found.map(([, user = '', key = '']) => [user, [key, `"${passwordFor(user)}"`]]));
}

/** Three NATS nodes that run deploy/nats-cluster.conf. */
export async function startDeployedNatsCluster(): Promise<NatsCluster> {
  const users = [...(await natsUsers()).values()];
  return startNatsCluster({
    config: join(DEPLOY, 'nats-cluster.conf'),
    env: { ...Object.fromEntries(users), NATS_ROUTE_PASSWORD: `"${passwordFor('route')}"` },
    routeLogin: `route:${passwordFor('route')}`,
  });
}

async function startDeployedNats() {
  const config = join(DEPLOY, 'nats.conf');
  const users = await natsUsers();
  const folder = await mkdtemp(join(tmpdir(), 'toolfleet-deployed-'));
  const [port, log] = [await freePort(), join(folder, 'nats.log')];
  const read = () => readFile(log, 'utf8').catch(() => '');
  const starts = async () => (await read()).split('Server is ready').length;
  const launch = async () => {
    const before = await starts();
    const env = { ...process.env, ...Object.fromEntries(users.values()) };
    const args = ['-c', config, '-a', '127.0.0.1', '-p', String(port), '-l', log];
    const started = spawnChild('nats-server', args, { env }, folder);
    await eventually('NATS is ready', async () => started.exitCode !== null || (await starts()) > before);
    return started;
  };
  let child = await launch();
  return {
    url: `nats://127.0.0.1:${port}`,
    users,
    changePassword: async (user: string, password: string) => {
      await endChild(child);
      users.set(user, [users.get(user)![0], `"${password}"`]);
      child = await launch();
    },
    refusals: async () =>
      (await read()).split('\n').filter((line) => /violation|authorization|not permitted/i.test(line)),
    stop: async () => {
      await endChild(child);
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** Users of a template of deploy/ with their passwords, as lines of an ACL file. */
export async function deployedUsers(template: string): Promise<string[]> {
  const lines = (await readFile(join(DEPLOY, template), 'utf8')).split('\n');
  return lines
    .filter((line) => line.startsWith('user '))
    .map((line) => line.replaceAll(/\$\{\w+\}/g, passwordFor(line.split(' ')[1]!)));
}

async function startDeployedRedis() {
  const lines = await deployedUsers('redis.acl.template');
  const server = await startRedis({ appendOnly: true, users: lines });
  const users = new Set(lines.map((line) => line.split(' ')[1]!));
  const admin = server.client();
  const url = `redis://127.0.0.1:${server.port}`;
  const clients: Redis[] = [];
  return {
    url,
    users,
    client: () => {
      const made = new Redis(url, { username: 'gateway', password: passwordFor('gateway') });
      // Specs restart Redis, and ioredis prints errors without a listener.
      made.on('error', () => undefined);
      clients.push(made);
      return made;
    },
    changeUser: async (user: string, ...rules: string[]) => void (await admin.call('ACL', 'SETUSER', user, ...rules)),
    restart: (after: RedisEnd) => restartRedis(server, after),
    contents: () => redisContents(admin),
    refusals: async () => ((await admin.call('ACL', 'LOG')) as unknown[]).map((entry) => JSON.stringify(entry)),
    stop: async () => {
      for (const made of clients) made.disconnect();
      await server.stop();
    },
  };
}
