/** What a container may do, seen from inside and outside, for comparison with what its service declares. */
import type { ComposedFleet } from './composed-fleet.js';

/** Rights of a container. */
export interface Rights {
  uid: number;
  /** Effective capabilities of its first process, as a hexadecimal mask. */
  capabilities: string;
  noNewPrivileges: boolean;
  isRootReadOnly: boolean;
  /** Folders that outlast the container and can be written. */
  writable: string[];
}

/** Mount points that engines add, and memory. */
const OF_ENGINE = /^\/(?:proc|sys|dev|etc\/(?:hosts|hostname|resolv\.conf)|run\/\.containerenv)(?:\/|$)/;

/** Reads the rights of a service's container. */
export async function rightsOf(fleet: ComposedFleet, service: string): Promise<Rights> {
  const status = await fleet.exec(service, 'cat', '/proc/1/status');
  const field = (name: string) => new RegExp(`^${name}:\\s+(\\S+)`, 'm').exec(status)![1]!;
  const mounts = (await fleet.exec(service, 'cat', '/proc/mounts'))
    .trim()
    .split('\n')
    .map((line) => line.split(' ') as [device: string, path: string, type: string, options: string]);
  const isWritable = (options: string) => options.split(',').includes('rw');
  return {
    uid: Number(field('Uid')),
    capabilities: field('CapEff'),
    noNewPrivileges: field('NoNewPrivs') === '1',
    isRootReadOnly: !mounts.some(([, path, , options]) => path === '/' && isWritable(options)),
    writable: mounts
      .filter(
        ([, path, type, options]) => path !== '/' && isWritable(options) && type !== 'tmpfs' && !OF_ENGINE.test(path),
      )
      .map(([, path]) => path)
      .toSorted(),
  };
}

/** The user of each image that is not ours, and what a service may write; the others are user 10001 and keep nothing. */
const EXPECTED: Record<string, Partial<Rights>> = {
  nats: { uid: 10_002 },
  redis: { uid: 999, writable: ['/data'] },
  // Its entry point begins as root to prepare the volume.
  postgres: { uid: 70, isRootReadOnly: false, writable: ['/var/lib/postgresql/data'] },
  'builtin-files': { writable: ['/workspaces'] },
};

/** Rights that a service has to have. */
export const expectedRights = (service: string): Rights => ({
  uid: 10_001,
  capabilities: '0000000000000000',
  noNewPrivileges: true,
  isRootReadOnly: true,
  writable: [],
  ...EXPECTED[service],
});

/** Rights that differ from the expected ones: `gateway: uid 0, expected 10001`. */
export async function wrongRights(fleet: ComposedFleet, service: string): Promise<string[]> {
  const expected = Object.entries(expectedRights(service));
  const seen: Record<string, unknown> = { ...(await rightsOf(fleet, service)) };
  return expected
    .filter(([name, value]) => String(seen[name]) !== String(value))
    .map(([name, value]) => `${service}: ${name} ${String(seen[name])}, expected ${String(value)}`);
}

const PORTS = [3000, 4001, 4002, 4003, 4222, 4318, 5432, 6379, 8080, 8222, 9090, 9093, 9464];
const DIAL = `
const { connect } = require('node:net');
const dial = ([host, port]) => new Promise((resolve) => {
  const socket = connect({ host, port, timeout: 2000 });
  const end = (reached) => { socket.destroy(); resolve(reached ? host + ':' + port : undefined); };
  socket.on('connect', () => end(true)).on('error', () => end(false)).on('timeout', () => end(false));
});
Promise.all(JSON.parse(process.argv[1]).map(dial)).then((all) => console.log(JSON.stringify(all.filter(Boolean))));`;

/** Open ports that a service's container reaches: of every other service by its name and each of its addresses, and of the host. */
export async function reachedFrom(fleet: ComposedFleet, service: string): Promise<string[]> {
  const others = Object.keys(fleet.services).filter((name) => name !== service);
  const nameOf = new Map(others.map((name) => [name, name]));
  for (const other of others)
    for (const { IPAddress: address } of Object.values((await fleet.inspect(other)).NetworkSettings.Networks))
      if (address) nameOf.set(address, other);
  for (const { Gateway: address } of Object.values((await fleet.inspect(service)).NetworkSettings.Networks))
    if (address) nameOf.set(address, 'host');
  const targets = [...nameOf.keys()].flatMap((host) => PORTS.map((port) => [host, port]));
  const reached = JSON.parse(await fleet.exec(service, 'node', '-e', DIAL, JSON.stringify(targets))) as string[];
  return [
    ...new Set(
      reached.map((each) => {
        const [host, port] = each.split(':');
        return `${nameOf.get(host!)}:${port}`;
      }),
    ),
  ].toSorted();
}
