import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { answers, startBroker, type BrokerProcess } from './broker-process.js';
import { eventually, freePort } from './child-process.js';
import { passwordFor, redisUsers } from './deployed-users.js';

/** A Redis server for a test. */
export interface RedisServer extends BrokerProcess {
  /** `redis://127.0.0.1:<port>`, with the login of `ADMINISTRATOR` where the server has users. */
  readonly url: string;
  /** The same with the login of a user of deploy/; undefined for users that it does not have. */
  urlAs(user: string): string | undefined;
  /** Port between the nodes of a cluster. */
  readonly busPort?: number;
  /** A connection that may do everything and that `stop` closes. */
  client(): Redis;
  /** Removes every key. */
  flush(): Promise<void>;
  /** Waits until all writes so far survive `kill`. */
  persisted(): Promise<void>;
  /** Waits until a replica follows and has all writes so far. WAIT does not: it counts from the last write of its own connection. */
  replicated(): Promise<void>;
}

/** Options of a test server. */
export interface RedisServerOptions {
  /** Keeps data across `kill` and `restart`, as deployed: with an append-only file and the users of deploy/. Default false. */
  appendOnly?: boolean;
  /** `maxmemory-policy`; default noeviction, as every service requires. */
  maxmemoryPolicy?: string;
  /** A single node that serves all slots of a Redis Cluster. `url` is then a cluster address. */
  cluster?: boolean;
  /** A node of the cluster that `startRedisCluster` creates. `url` is the address of this node. */
  clusterNode?: { nodeTimeoutMs: number };
  /** Port of the primary on this machine. */
  replicaOf?: number;
  /** Lines of the ACL file instead of those of deploy/. The server replays its append-only file with the rights of the user `default`. */
  users?: readonly string[];
  /** The server to run, for specs that run several: a program of this machine. */
  program?: string;
}

/** A user that is added to the ACL file and may do everything. */
export const ADMINISTRATOR = { username: 'administrator', password: 'pw-administrator' } as const;

/** Starts a Redis server on a free loopback port. */
export async function startRedis(options: RedisServerOptions = {}): Promise<RedisServer> {
  const isNode = options.cluster === true || options.clusterNode !== undefined;
  const busPort = isNode ? await freePort() : undefined;
  const users = options.users ?? (options.appendOnly ? await redisUsers() : undefined);
  const login = users && ADMINISTRATOR;
  const broker = await startBroker({
    name: 'redis-server',
    programs: options.program ? [options.program] : ['redis-server', 'valkey-server', '/usr/bin/redis-server'],
    args: async (port, folder) => [
      ...['--port', String(port), '--bind', '127.0.0.1', '--dir', folder, '--save', ''],
      ...['--appendonly', options.appendOnly ? 'yes' : 'no', '--appendfsync', 'everysec'],
      ...['--maxmemory-policy', options.maxmemoryPolicy ?? 'noeviction', '--daemonize', 'no'],
      ...['--repl-diskless-sync-delay', '0'],
      ...(options.replicaOf === undefined ? [] : ['--replicaof', '127.0.0.1', String(options.replicaOf)]),
      ...(users ? await aclArgs(folder, users) : []),
      ...(busPort === undefined ? [] : clusterArgs(busPort, options.clusterNode?.nodeTimeoutMs ?? 15_000)),
    ],
    serves: (port) => answers(port, `${login ? `AUTH ${login.username} ${login.password}\r\n` : ''}PING\r\n`, '+PONG'),
  });
  const at = (user?: string, password?: string): string =>
    `redis${options.cluster ? '+cluster' : ''}://${user ? `${user}:${password}@` : ''}127.0.0.1:${broker.port}`;
  const url = at(login?.username, login?.password);
  if (options.cluster) {
    await answers(broker.port, 'CLUSTER ADDSLOTSRANGE 0 16383\r\n', '+OK');
    await eventually('the cluster is up', () => answers(broker.port, 'CLUSTER INFO\r\n', 'cluster_state:ok'));
  }
  const clients: Redis[] = [];
  const stopBroker = broker.stop.bind(broker);
  const client = (): Redis => {
    const made = new Redis(url, { maxRetriesPerRequest: null });
    // Many tests break connections, and ioredis prints errors without a listener.
    made.on('error', () => undefined);
    clients.push(made);
    return made;
  };
  return Object.assign(broker, {
    url,
    urlAs: (user: string) =>
      users?.some((line) => line.startsWith(`user ${user} `)) ? at(user, passwordFor(user)) : undefined,
    busPort,
    client,
    async flush(): Promise<void> {
      const connection = new Redis(url);
      await connection.flushall();
      connection.disconnect();
    },
    async persisted(): Promise<void> {
      const connection = new Redis(url);
      // Then a write is answered when it is on the disk, with all writes before it.
      await connection.config('SET', 'appendfsync', 'always');
      await connection.set('persisted', '1');
      await connection.del('persisted');
      await connection.config('SET', 'appendfsync', 'everysec');
      connection.disconnect();
    },
    async replicated(): Promise<void> {
      const connection = new Redis(url);
      const replication = () => connection.info('replication');
      try {
        const written = Number(/^master_repl_offset:(\d+)/m.exec(await replication())?.[1]);
        const has = async () => Number(/state=online,offset=(\d+)/.exec(await replication())?.[1]) >= written;
        await eventually('a replica has what was written', has, { everyMs: 50 });
      } finally {
        connection.disconnect();
      }
    },
    async stop(): Promise<void> {
      for (const made of clients) made.disconnect();
      await stopBroker();
    },
  });
}

/** A node that has never met another does not know its own address, so clients would receive an empty one. */
const clusterArgs = (busPort: number, nodeTimeoutMs: number): string[] => [
  ...['--cluster-enabled', 'yes', '--cluster-port', String(busPort)],
  ...['--cluster-announce-ip', '127.0.0.1', '--cluster-node-timeout', String(nodeTimeoutMs)],
];

async function aclArgs(folder: string, users: readonly string[]): Promise<string[]> {
  const file = join(folder, 'users.acl');
  const { username, password } = ADMINISTRATOR;
  // A restart uses what ACL SAVE has written.
  if (!existsSync(file))
    await writeFile(file, `${[`user ${username} on >${password} ~* &* +@all`, ...users].join('\n')}\n`);
  return ['--aclfile', file, '--masteruser', 'replica', '--masterauth', passwordFor('replica')];
}
