/** Rights of a container, seen from inside and outside, and the expected ones. */
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

/** @param text `/proc/1/status` and `/proc/mounts` of a container */
export function readRights(text: string): Rights {
  const field = (name: string) => new RegExp(`^${name}:\\s+(\\S+)`, 'm').exec(text)![1]!;
  const mounts = text
    .split('\n')
    .map((line) => line.split(' ') as [device: string, path: string, type: string, options: string])
    .filter(([, path, , options]) => path?.startsWith('/') && options);
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

/** Reads the rights of a service's container. */
export const rightsOf = async (fleet: ComposedFleet, service: string): Promise<Rights> =>
  readRights(await fleet.exec(service, 'cat', '/proc/1/status', '/proc/mounts'));

/** Users of images of other projects, and volumes that a service writes; the others are user 10001 and keep nothing. */
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
export function wrongRights(service: string, rights: Rights): string[] {
  const seen = Object.entries(rights) as [keyof Rights, unknown][];
  const expected = expectedRights(service);
  return seen
    .filter(([name, value]) => String(value) !== String(expected[name]))
    .map(([name, value]) => `${service}: ${name} ${String(value)}, expected ${String(expected[name])}`);
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
  const states = await Promise.all(others.map((other) => fleet.inspect(other)));
  for (const [index, other] of others.entries())
    for (const { IPAddress: address } of Object.values(states[index]!.NetworkSettings.Networks))
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
