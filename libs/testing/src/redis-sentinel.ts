import { writeFile } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { answers, startBroker, type BrokerProcess } from './broker-process.js';
import { eventually } from './child-process.js';
import { passwordFor } from './deployed-users.js';
import { ADMINISTRATOR, startRedis, type RedisServer } from './redis-server.js';

/** Redis with a replica and Sentinels that fail over, for a test. */
export interface RedisSentinel {
  /** `redis+sentinel://…/fleet`, with the login of `ADMINISTRATOR`. */
  readonly url: string;
  /** The same with the login of a user of deploy/. */
  urlAs(user: string): string;
  /** The first one is the primary at the start. */
  readonly servers: readonly RedisServer[];
  readonly sentinels: readonly BrokerProcess[];
  /** Port of the server that the first Sentinel takes for the primary. */
  primaryPort(): Promise<number>;
  /** Waits until no Sentinel takes this server for the primary. */
  untilPrimaryIsNot(port: number): Promise<void>;
  /** Makes the replica the primary, as before an update of the server. */
  failOver(): Promise<void>;
  /** Waits until every Sentinel knows the primary, its replica and the other Sentinels, and the replica follows. */
  untilWatched(): Promise<void>;
  /** Waits until the replica has all writes so far. */
  replicated(): Promise<void>;
  /** A connection to whatever is the primary, closed by `stop`. */
  client(): Redis;
  stop(): Promise<void>;
}

const MASTER = 'fleet';
const SENTINELS = 3;
const QUORUM = 2;

/**
 * Starts a primary, its replica and three Sentinels on free loopback ports, with the users of deploy/.
 * @param sentinelPassword at the Sentinels themselves
 */
export async function startRedisSentinel(sentinelPassword: string): Promise<RedisSentinel> {
  const primary = await startRedis({ appendOnly: true });
  const replica = await startRedis({ appendOnly: true, replicaOf: primary.port });
  const sentinels = await Promise.all(
    Array.from({ length: SENTINELS }, () => startSentinel(primary.port, sentinelPassword)),
  );
  const nodes = sentinels.map(({ port }) => ({ host: '127.0.0.1', port }));
  const clients: Redis[] = [];
  const asks = nodes.map((node) => new Redis({ ...node, password: sentinelPassword, maxRetriesPerRequest: null }));
  for (const ask of asks) ask.on('error', () => undefined);
  const ask = asks[0]!;
  const at = (user: string, password: string): string =>
    `redis+sentinel://${user}:${password}@${nodes.map(({ host, port }) => `${host}:${port}`).join(',')}/${MASTER}`;
  const watch: RedisSentinel = {
    url: at(ADMINISTRATOR.username, ADMINISTRATOR.password),
    urlAs: (user) => at(user, passwordFor(user)),
    servers: [primary, replica],
    sentinels,
    primaryPort: () => primaryBy(ask),
    async untilPrimaryIsNot(port) {
      const isAnother = async () => !(await Promise.all(asks.map(primaryBy))).includes(port);
      await eventually('the other server is the primary', isAnother, { everyMs: 100 });
    },
    async failOver() {
      const started = () =>
        ask.call('SENTINEL', 'FAILOVER', MASTER).then(
          () => true,
          () => false, // not ready: the replica counts as down, or the last change is too young
        );
      await eventually('a failover begins', started, { everyMs: 500 });
    },
    async untilWatched() {
      for (const one of asks) {
        const knowsAll = async () => (await one.info('sentinel')).includes(`slaves=1,sentinels=${SENTINELS}`);
        await eventually('the Sentinel knows everyone', knowsAll, { everyMs: 200 });
      }
      await watch.replicated();
    },
    async replicated() {
      const port = await watch.primaryPort();
      await watch.servers.find((one) => one.port === port)?.replicated();
    },
    client() {
      const made = new Redis({
        ...ADMINISTRATOR,
        sentinels: nodes,
        sentinelPassword,
        name: MASTER,
        maxRetriesPerRequest: null,
      });
      made.on('error', () => undefined);
      clients.push(made);
      return made;
    },
    async stop() {
      for (const made of [...clients, ...asks]) made.disconnect();
      await Promise.all(sentinels.map((sentinel) => sentinel.stop()));
      await Promise.all([primary.stop(), replica.stop()]);
    },
  };
  try {
    await watch.untilWatched();
  } catch (error) {
    await watch.stop();
    throw error;
  }
  return watch;
}

async function primaryBy(sentinel: Redis): Promise<number> {
  const [, port] = (await sentinel.call('SENTINEL', 'get-master-addr-by-name', MASTER)) as [string, string];
  return Number(port);
}

function startSentinel(primaryPort: number, password: string): Promise<BrokerProcess> {
  return startBroker({
    name: 'redis-sentinel',
    programs: ['redis-server', 'valkey-server', '/usr/bin/redis-server'],
    async args(port, folder) {
      const file = join(folder, 'sentinel.conf');
      // Sentinel writes what it learned into its file: a restart must find it.
      if (!existsSync(file)) await writeFile(file, configuration(port, folder, primaryPort, password));
      return [file, '--sentinel'];
    },
    serves: (port) => answers(port, 'PING\r\n', '-NOAUTH'),
  });
}

/** Down after 2 s: a busy test machine must not look like a dead server. */
const configuration = (port: number, folder: string, primaryPort: number, sentinelPassword: string): string => `
port ${port}
bind 127.0.0.1
dir ${folder}
sentinel monitor ${MASTER} 127.0.0.1 ${primaryPort} ${QUORUM}
sentinel down-after-milliseconds ${MASTER} 2000
sentinel failover-timeout ${MASTER} 10000
sentinel parallel-syncs ${MASTER} 1
sentinel auth-user ${MASTER} sentinel
sentinel auth-pass ${MASTER} ${passwordFor('sentinel')}
requirepass ${sentinelPassword}
sentinel sentinel-pass ${sentinelPassword}
`;
