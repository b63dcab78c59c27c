import { Redis } from 'ioredis';
import { answers, startBroker, type BrokerProcess } from './broker-process.js';

/** A Redis server for a test. */
export interface RedisServer extends BrokerProcess {
  /** `redis://127.0.0.1:<port>`. */
  readonly url: string;
  /** A connection that `stop` closes. */
  client(): Redis;
  /** Removes every key. */
  flush(): Promise<void>;
}

/** Options of a test server. */
export interface RedisServerOptions {
  /** Keeps data over `kill` and `restart`. Default false. */
  appendOnly?: boolean;
  /** `maxmemory-policy`; default noeviction, as every service demands. */
  maxmemoryPolicy?: string;
}

/** Starts a Redis server on a free loopback port. */
export async function startRedis(options: RedisServerOptions = {}): Promise<RedisServer> {
  const broker = await startBroker({
    name: 'redis-server',
    programs: ['redis-server', 'valkey-server', '/usr/bin/redis-server'],
    args: (port, folder) => [
      ...['--port', String(port), '--bind', '127.0.0.1', '--dir', folder, '--save', ''],
      ...['--appendonly', options.appendOnly ? 'yes' : 'no', '--appendfsync', 'everysec'],
      ...['--maxmemory-policy', options.maxmemoryPolicy ?? 'noeviction', '--daemonize', 'no'],
    ],
    serves: (port) => answers(port, 'PING\r\n', '+PONG'),
  });
  const url = `redis://127.0.0.1:${broker.port}`;
  const clients: Redis[] = [];
  const stopBroker = broker.stop.bind(broker);
  const client = (): Redis => {
    const made = new Redis(url, { maxRetriesPerRequest: null });
    // A broken connection is part of many tests; without a listener ioredis prints it.
    made.on('error', () => undefined);
    clients.push(made);
    return made;
  };
  return Object.assign(broker, {
    url,
    client,
    async flush(): Promise<void> {
      const connection = new Redis(url);
      await connection.flushall();
      connection.disconnect();
    },
    async stop(): Promise<void> {
      for (const made of clients) made.disconnect();
      await stopBroker();
    },
  });
}
