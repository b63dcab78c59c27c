/**
 * The short form of `npm run test:containers`, with `TEST_CONTAINERS=1`: the images of the gateway and of the sandbox, a call
 * to each, and a restart of Redis as docker-compose.yml deploys it. The services they need run from what is built here.
 */
import { fileURLToPath } from 'node:url';
import { eventually } from '@toolfleet/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ServiceName } from '../../apps/standalone/src/standalone.config.js';
import { CHECKS } from '../containers/checks.js';
import { ComposedFleet, type ComposeServices } from '../containers/composed-fleet.js';
import { findEngine, type Engine } from '../containers/engine.js';
import { getImages, type Images } from '../containers/images.js';
import { programOf } from '../fleet/service-programs.js';
import type { Answer } from '../fleet/test-fleet.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const SERVICES = ['nats', 'redis', 'registry', 'budget', 'python-sandbox', 'gateway'];
const found = process.env['TEST_CONTAINERS'] ? await findEngine() : { missing: 'TEST_CONTAINERS is not set' };

describe.skipIf('missing' in found)(`containers${'missing' in found ? `: ${found.missing}` : ''}`, () => {
  const engine = found as Engine;
  let images: Images | undefined;
  let fleet: ComposedFleet;

  beforeAll(async () => {
    images = await getImages(engine, 'toolfleet-short', { pulled: [], whole: false });
    for (const app of ['gateway', 'python-sandbox']) await images.build(app, { whole: false });
    fleet = await ComposedFleet.start({ engine, images, only: SERVICES, change: runFromBuild(images) });
    await fleet.untilReady(['execute_python']);
  });
  afterAll(async () => {
    await fleet?.down();
    await images?.remove();
    await (found as Partial<Engine>).close?.();
  });

  /** The answer to Python, once the services that a call needs are there. */
  const answerTo = async (code: string): Promise<Answer> => {
    let answer: Answer;
    const isServed = async () => (answer = await fleet.call('execute_python', { code })).status !== 503;
    await eventually('a call is answered', isServed, { everyMs: 250 });
    return answer!;
  };

  it.each(Object.entries(CHECKS))('%s', async (_what, check) => {
    expect(await check(fleet)).toEqual([]);
  });

  it('Python runs, after the restart of Redis as well', async () => {
    expect(await answerTo('6 * 7')).toMatchObject({ status: 200, body: { success: true, output: { value: 42 } } });
  });
});

/** Runs the services that have no image here from the programs of this tree, the ledger in a file. */
function runFromBuild(images: Images): (services: ComposeServices) => void {
  return (services) => {
    for (const name of ['registry', 'budget'] as const satisfies ServiceName[]) {
      const service = services[name]!;
      service.image = images.base;
      service.entrypoint = ['node', programOf(name)];
      service.volumes = [...(service.volumes ?? []), `${ROOT}:${ROOT}:ro`];
      service.tmpfs = ['/tmp:size=64m,mode=1777'];
      service.environment = { ...service.environment, DATABASE_URL: '', DATABASE_DIR: '/tmp' };
      delete service.environment['DATABASE_PASSWORD_FILE'];
      service.secrets = service.secrets?.filter((secret) => secret !== 'postgres_password');
      service.networks = service.networks.filter((network) => network !== 'database');
    }
  };
}
