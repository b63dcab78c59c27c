/**
 * The fleet as it is deployed: NATS runs deploy/nats.conf, Redis the users of deploy/redis.acl.template, and every service and
 * toolset connects as the user that is meant for it. Everything works, and neither server has refused anything.
 */
import { eventually } from '@toolfleet/testing';
import { NatsClient } from '@toolfleet/transport';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { EVERY_KIND, TOOLS_OF_EVERY_KIND } from '../fleet/every-kind.js';
import { startDeployedBrokers, type DeployedBrokers } from '../fleet/deployed-brokers.js';
import { startSampleServices, type SampleServices } from '../fleet/sample-services.js';
import { TestFleet, type ServiceName } from '../fleet/test-fleet.js';

/** Services with their user at both servers; the toolsets of the builtin executor are started apart. */
const USERS: Record<Exclude<ServiceName, 'builtin-executor'>, string> = {
  gateway: 'gateway',
  registry: 'registry',
  budget: 'budget',
  'mcp-executor': 'mcp-executor',
  'openapi-executor': 'openapi-executor',
  'python-sandbox': 'python-sandbox',
};
const TOOLSETS = ['compute', 'web', 'files', 'agent'] as const;

let brokers: DeployedBrokers;
let samples: SampleServices;
let fleet: TestFleet;
let nats: NatsClient;
beforeAll(async () => {
  [brokers, samples] = await Promise.all([startDeployedBrokers(), startSampleServices()]);
  fleet = await TestFleet.start({
    services: Object.fromEntries(Object.keys(USERS).map((name) => [name, 1])),
    tools: [],
    config: samples.config,
    env: { ...samples.env, GATEWAY_TRUST_TENANT_SUBJECTS: 'true' },
    envOf: Object.fromEntries(Object.entries(USERS).map(([name, user]) => [name, brokers.envOf(user)])),
    brokers,
  });
  for (const toolset of TOOLSETS)
    await fleet.launch('builtin-executor', { ...brokers.envOf(`builtin-${toolset}`), BUILTIN_TOOLSETS: toolset });
  await fleet.untilListed(TOOLS_OF_EVERY_KIND);
  nats = await NatsClient.connect({ name: 'spec', ...brokers.natsLogin('acme') });
});
afterAll(async () => {
  await nats?.close();
  await fleet?.stop();
  await Promise.all([brokers?.stop(), samples?.stop()]);
});

describe('the users of deploy/', () => {
  it.each(EVERY_KIND)('%s', (_what, run) => run({ fleet, nats, samples, door: (verb) => `tool.${verb}.acme` }));

  it('were refused nothing by Redis', async () => {
    expect(await brokers.redisRefusals()).toEqual([]);
  });

  it('were refused nothing by NATS', async () => {
    expect(await brokers.natsRefusals()).toEqual([]);
  });

  it('would have been noticed if they had been', async () => {
    await expect(brokers.redis.client().get('{b:acme}:scopes')).rejects.toThrow('NOPERM');
    expect(await brokers.redisRefusals()).toEqual([expect.stringContaining('{b:acme}:scopes')]);
    nats.publish('budget.reserve', {});
    await eventually('NATS has logged it', async () => (await brokers.natsRefusals()).length === 1);
  });
});
