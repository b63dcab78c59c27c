import { answers, startBroker, type BrokerProcess } from './broker-process.js';
import { eventually, freePort } from './child-process.js';
import { deployedFile, natsUsers, passwordFor } from './deployed-users.js';

/** A NATS cluster for a test: every node knows every other one. */
export interface NatsCluster {
  /** Login of a user of the file; undefined for others. */
  loginOf(user: string): { url: string; user: string; password: string } | undefined;
  readonly nodes: readonly BrokerProcess[];
  /** All nodes separated by commas, in the format of `NATS_URL`. */
  readonly url: string;
  /** The same nodes, starting with the given one: clients connect to the first that responds. */
  urlFrom(node: number): string;
  /** Waits until every node has a route to every other. */
  untilMeshed(): Promise<void>;
  stop(): Promise<void>;
}

/** Starts three NATS nodes that run deploy/nats-cluster.conf on free loopback ports. */
export async function startNatsCluster(): Promise<NatsCluster> {
  const size = 3;
  const { users } = await natsUsers();
  const passwords = [...users.values()].map(({ key, value }) => [key, value] as const);
  const env = { ...Object.fromEntries(passwords), NATS_ROUTE_PASSWORD: `"${passwordFor('route')}"` };
  const routeLogin = `route:${passwordFor('route')}`;
  const routePorts = await Promise.all(Array.from({ length: size }, freePort));
  const monitorPorts = await Promise.all(Array.from({ length: size }, freePort));
  const nodes = await Promise.all(
    routePorts.map((routePort, index) =>
      startBroker({
        name: 'nats-server',
        programs: ['nats-server', '/usr/sbin/nats-server'],
        env: {
          ...env,
          NATS_ROUTES: routesTo(
            routePorts.filter((other) => other !== routePort),
            routeLogin,
          ),
        },
        args: (port) => [
          ...[
            '-c',
            deployedFile('nats-cluster.conf'),
            '-a',
            '127.0.0.1',
            '-p',
            String(port),
            '-m',
            String(monitorPorts[index]),
          ],
          ...['--cluster', `nats://127.0.0.1:${routePort}`],
        ],
        serves: (port) => answers(port, '', 'INFO {'),
      }),
    ),
  );
  const urlFrom = (first: number): string =>
    [...nodes.slice(first), ...nodes.slice(0, first)].map(({ port }) => `nats://127.0.0.1:${port}`).join(',');
  const cluster: NatsCluster = {
    nodes,
    url: urlFrom(0),
    loginOf: (user) => (users.has(user) ? { url: urlFrom(0), user, password: passwordFor(user) } : undefined),
    urlFrom,
    async untilMeshed() {
      for (const port of monitorPorts)
        await eventually('the node has a route to each other one', async () => (await countRoutes(port)) >= size - 1);
    },
    stop: async () => void (await Promise.all(nodes.map((node) => node.stop()))),
  };
  try {
    await cluster.untilMeshed();
  } catch (error) {
    await cluster.stop();
    throw error;
  }
  return cluster;
}

/** Number of routes of a node, by its monitoring port; 0 while it is down. */
async function countRoutes(monitorPort: number): Promise<number> {
  try {
    const answer = await fetch(`http://127.0.0.1:${monitorPort}/routez`);
    return ((await answer.json()) as { num_routes: number }).num_routes;
  } catch {
    return 0;
  }
}

const routesTo = (ports: readonly number[], login: string): string =>
  `[${ports.map((port) => `"nats://${login}@127.0.0.1:${port}"`).join(', ')}]`;
