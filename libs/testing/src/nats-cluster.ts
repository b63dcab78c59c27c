import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { answers, startBroker, type BrokerProcess } from './broker-process.js';
import { eventually, freePort } from './child-process.js';

/** A NATS cluster for a test: every node knows every other one. */
export interface NatsCluster {
  readonly nodes: readonly BrokerProcess[];
  /** All nodes separated by commas, as `NATS_URL` takes them. */
  readonly url: string;
  /** The same nodes, beginning with the one of this number: clients connect to the first one that answers. */
  urlFrom(node: number): string;
  /** Waits until each node has a route to each other one. */
  untilMeshed(): Promise<void>;
  stop(): Promise<void>;
}

/** Starts a NATS cluster on free loopback ports. */
export async function startNatsCluster(size = 3): Promise<NatsCluster> {
  const routePorts = await Promise.all(Array.from({ length: size }, freePort));
  const monitorPorts = await Promise.all(Array.from({ length: size }, freePort));
  const nodes = await Promise.all(
    routePorts.map((routePort, index) =>
      startBroker({
        name: 'nats-server',
        programs: ['nats-server', '/usr/sbin/nats-server'],
        async args(port, folder) {
          const file = join(folder, 'nats.conf');
          await writeFile(file, configuration({ port, routePort, routePorts, monitorPort: monitorPorts[index]! }));
          return ['-c', file];
        },
        serves: (port) => answers(port, '', 'INFO {'),
      }),
    ),
  );
  const urlFrom = (first: number): string =>
    [...nodes.slice(first), ...nodes.slice(0, first)].map(({ port }) => `nats://127.0.0.1:${port}`).join(',');
  const cluster: NatsCluster = {
    nodes,
    url: urlFrom(0),
    urlFrom,
    async untilMeshed() {
      for (const port of monitorPorts)
        await eventually('the node has a route to each other one', async () => (await routesOf(port)) >= size - 1);
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

/** Routes of a node, by its monitoring port; 0 while it is not there. */
async function routesOf(monitorPort: number): Promise<number> {
  try {
    const answer = await fetch(`http://127.0.0.1:${monitorPort}/routez`);
    return ((await answer.json()) as { num_routes: number }).num_routes;
  } catch {
    return 0;
  }
}

interface Ports {
  port: number;
  routePort: number;
  routePorts: readonly number[];
  monitorPort: number;
}

/** The limits of deploy/nats.conf, and the routes between the nodes. */
const configuration = ({ port, routePort, routePorts, monitorPort }: Ports): string => `
host: 127.0.0.1
port: ${port}
http: "127.0.0.1:${monitorPort}"
max_payload: 16MB
ping_interval: "5s"
ping_max: 2
write_deadline: "2s"
cluster {
  name: fleet
  listen: "127.0.0.1:${routePort}"
  routes: [${routePorts
    .filter((other) => other !== routePort)
    .map((other) => `"nats://127.0.0.1:${other}"`)
    .join(', ')}]
}
`;
