/**
 * `npm run test:containers -- --faults`: each check of the short form finds the fault that is planted for it, and nothing where there is
 * none. A fault of a row is in an otherwise sound fleet.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { CHECKS, type CheckName } from './checks.js';
import { ComposedFleet, pulledImages, type ComposeServices } from './composed-fleet.js';
import { findEngine, type Engine } from './engine.js';
import { getImages, type Images } from './images.js';

const ACL = fileURLToPath(new URL('../../deploy/redis.acl.template', import.meta.url));

interface Fault {
  fault: string;
  check: CheckName;
  /** Patterns of findings. Others may follow: in the network of NATS the sandbox also reaches open ports of this machine. */
  found: RegExp[];
  only?: readonly string[];
  /** A service cannot become ready with the fault, so nothing waits for it. */
  neverReady?: true;
  /** Lines of a Dockerfile on top of the gateway's image. */
  layer?: string;
  /** Changes the users of Redis. */
  acl?: (text: string) => string;
  plant?: (services: ComposeServices, folder: string) => void;
}

const GATEWAY = ['nats', 'redis', 'gateway'];
const SANDBOX = ['nats', 'redis', 'python-sandbox'];

const FAULTS: Fault[] = [
  {
    fault: 'the program is missing in an image',
    check: 'health checks pass',
    layer: 'USER 0\nRUN rm /app/main.js\nUSER 10001:10001',
    found: [/gateway is not healthy/],
  },
  {
    fault: 'the files of the console are missing in an image',
    check: 'the console is served outside',
    layer: 'USER 0\nRUN rm /app/console/index.html\nUSER 10001:10001',
    found: [/the console: [45]\d\d/],
  },
  {
    fault: 'a service listens at its own address only',
    check: 'the console is served outside',
    plant: ({ gateway }) => (gateway!.environment!['GATEWAY_HOST'] = '127.0.0.1'),
    found: [/the console: .*(?:ECONNREFUSED|ECONNRESET|other side closed)/],
  },
  {
    fault: 'root, a writable root, gained privileges and a folder of the machine',
    check: 'users, capabilities and mounts are as expected',
    plant: ({ gateway, nats, redis }, folder) => {
      Object.assign(gateway!, { user: '0:0', cap_drop: [] });
      nats!.security_opt = [];
      redis!.read_only = false;
      nats!.volumes!.push(`${folder}:/machine`);
    },
    found: [
      /nats: noNewPrivileges false, expected true/,
      /nats: writable \/machine, expected $/,
      /redis: isRootReadOnly false, expected true/,
      /gateway: uid 0, expected 10001/,
      /gateway: capabilities 0*[1-9a-f]\w*, expected 0{16}/,
    ],
  },
  {
    fault: 'the sandbox is in the network of NATS',
    check: 'the sandbox reaches Redis only',
    only: SANDBOX,
    plant: ({ 'python-sandbox': sandbox }) => sandbox!.networks.push('fleet'),
    found: [/reaches nats:4222/, /reaches nats:8222/],
  },
  {
    fault: 'the port of Redis is closed to the sandbox',
    check: 'the sandbox reaches Redis only',
    only: SANDBOX,
    neverReady: true,
    plant: ({ redis }) => (redis!.networks = ['redis']),
    found: [/does not reach redis:6379/],
  },
  {
    fault: 'a permission is taken from a user of Redis',
    check: 'a restart of Redis loses no key',
    acl: (text) => text.replace(/^(user gateway .*) ~\{auth\}:\*/m, '$1'),
    found: [/no key was made: 5\d\d/],
  },
  {
    fault: 'the default user of Redis is off without commands',
    check: 'a restart of Redis loses no key',
    acl: (text) => text.replace(/^user default off .*$/m, 'user default off'),
    found: [/a key made before the restart of Redis: 401/],
  },
];

let engine: Engine;
let images: Images;
let fleet: ComposedFleet | undefined;

beforeAll(async () => {
  const found = await findEngine();
  if ('missing' in found) throw new Error(found.missing);
  engine = found;
  images = await getImages(engine, 'toolfleet-faults', { pulled: pulledImages(['nats', 'redis']), whole: false });
  for (const app of ['gateway', 'python-sandbox']) await images.build(app, { whole: false });
});
afterEach(() => fleet?.down());
afterAll(async () => {
  await images?.remove();
  await engine?.close();
});

async function start({ only = GATEWAY, layer, acl, plant }: Partial<Fault>): Promise<ComposedFleet> {
  const image = layer && (await images.derive('gateway', layer));
  fleet = await ComposedFleet.start({
    engine,
    images,
    only,
    change: (services, folder) => {
      if (image) services['gateway']!.image = image;
      if (acl) {
        const changed = join(folder, 'redis.acl.template');
        writeFileSync(changed, acl(readFileSync(ACL, 'utf8')));
        services['redis']!.volumes = services['redis']!.volumes!.map((mount) => mount.replace(ACL, changed));
      }
      plant?.(services, folder);
    },
  });
  return fleet;
}

it('nothing is found where no fault is', async () => {
  const sound = await start({ only: [...GATEWAY, 'python-sandbox'] });
  for (const check of Object.values(CHECKS)) expect(await check(sound)).toEqual([]);
});

it.each(FAULTS)('$fault: found by "$check"', async ({ check, found, neverReady, ...fault }) => {
  const faulty = await start(fault);
  if (check !== 'health checks pass' && !neverReady) expect(await CHECKS['health checks pass'](faulty)).toEqual([]);
  const findings = await CHECKS[check](faulty);
  expect(findings).toEqual(expect.arrayContaining(found.map((pattern) => expect.stringMatching(pattern))));
});
