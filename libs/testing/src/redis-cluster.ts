import { Cluster, Redis } from 'ioredis';
import { eventually } from './child-process.js';
import { ADMINISTRATOR, startRedis, type RedisServer } from './redis-server.js';

/** A Redis Cluster for a test: primaries with one replica each. */
export interface RedisCluster {
  /** `redis+cluster://…` with the login of `ADMINISTRATOR`. */
  readonly url: string;
  /** The same with the login of a user of deploy/. */
  urlAs(user: string): string | undefined;
  /** First the primaries, in the order of their slots, then their replicas in the same order. */
  readonly nodes: readonly RedisServer[];
  /** Waits until every running node reports that all slots are served. */
  untilServed(): Promise<void>;
  /** Index in `nodes` of the current primary of a key's slot. */
  findPrimary(key: string): Promise<number>;
  /** A connection to the cluster, closed by `stop`. */
  client(): Cluster;
  stop(): Promise<void>;
}

const SLOTS = 16_384;
/** A primary that is silent this long is replaced; a busy test machine must not look like that. */
const NODE_TIMEOUT_MS = 3_000;

/** Starts a cluster of `primaries` with a replica each on free loopback ports. */
export async function startRedisCluster(primaries = 3): Promise<RedisCluster> {
  const nodes = await Promise.all(
    Array.from({ length: 2 * primaries }, () =>
      startRedis({ appendOnly: true, clusterNode: { nodeTimeoutMs: NODE_TIMEOUT_MS } }),
    ),
  );
  const admins = nodes.map((node) => node.client());
  const clients: Cluster[] = [];
  const addresses = nodes.map(({ port }) => ({ host: '127.0.0.1', port }));
  const isServed = async (admin: Redis): Promise<boolean> =>
    admin.status === 'ready' && /cluster_state:ok/.test(String(await admin.call('CLUSTER', 'INFO')));
  const toCluster = (url: string): string =>
    `redis+cluster${url.slice('redis'.length).replace(/[^@]*$/, addresses.map(({ host, port }) => `${host}:${port}`).join(','))}`;
  const cluster: RedisCluster = {
    url: toCluster(nodes[0]!.url),
    urlAs: (user) => nodes[0]!.urlAs(user) && toCluster(nodes[0]!.urlAs(user)!),
    nodes,
    async untilServed() {
      for (const admin of admins)
        await eventually(
          'the node sees all slots served',
          // A node that was killed has no connection.
          async () => admin.status !== 'ready' || isServed(admin),
          { everyMs: 100 },
        );
    },
    async findPrimary(key) {
      const admin = admins.find(({ status }) => status === 'ready')!;
      const slot = Number(await admin.call('CLUSTER', 'KEYSLOT', key));
      const ranges = (await admin.call('CLUSTER', 'SLOTS')) as [number, number, [string, number]][];
      const range = ranges.find(([from, to]) => slot >= from && slot <= to);
      return addresses.findIndex(({ port }) => port === range?.[2][1]);
    },
    client() {
      const made = new Cluster(addresses, { redisOptions: ADMINISTRATOR });
      made.on('error', () => undefined);
      clients.push(made);
      return made;
    },
    async stop() {
      for (const made of clients) made.disconnect();
      await Promise.all(nodes.map((node) => node.stop()));
    },
  };
  try {
    await join(nodes, admins, primaries);
    await cluster.untilServed();
  } catch (error) {
    await cluster.stop();
    throw error;
  }
  return cluster;
}

/** What `redis-cli --cluster create` does. */
async function join(nodes: readonly RedisServer[], admins: readonly Redis[], primaries: number): Promise<void> {
  const share = Math.ceil(SLOTS / primaries);
  for (const [index, admin] of admins.entries()) {
    await admin.call('CLUSTER', 'SET-CONFIG-EPOCH', index + 1);
    if (index >= primaries) continue;
    await admin.call('CLUSTER', 'ADDSLOTSRANGE', index * share, Math.min(SLOTS, (index + 1) * share) - 1);
  }
  for (const { port, busPort } of nodes.slice(1)) await admins[0]!.call('CLUSTER', 'MEET', '127.0.0.1', port, busPort!);
  const ids = await Promise.all(admins.map(async (admin) => String(await admin.call('CLUSTER', 'MYID'))));
  for (const [index, admin] of admins.entries()) {
    await eventually('the node knows all others', async () => {
      const known = String(await admin.call('CLUSTER', 'NODES'));
      return ids.every((id) => known.includes(id)) && !/handshake/.test(known);
    });
    if (index >= primaries) await admin.call('CLUSTER', 'REPLICATE', ids[index - primaries]!);
  }
}
