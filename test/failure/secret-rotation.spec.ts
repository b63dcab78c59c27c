/**
 * The drill of docs/runbooks/secret-rotation.md: the passwords of the gateway at NATS and at Redis change while the fleet works,
 * in the order that page says. Afterwards calls run and the old passwords are refused.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually, passwordFor } from '@toolfleet/testing';
import { Redis } from 'ioredis';
import { connect } from 'nats';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { TestFleet } from '../fleet/test-fleet.js';

const PATIENCE = { timeoutMs: 30_000, everyMs: 100 };
const OLD = passwordFor('gateway');

let fleet: TestFleet;
let secrets: string;
beforeAll(async () => {
  secrets = await mkdtemp(join(tmpdir(), 'toolfleet-secrets-'));
  for (const name of ['nats', 'redis']) await writeSecret(name, OLD);
  fleet = await TestFleet.start({
    services: { gateway: 1, registry: 1, budget: 1, 'builtin-executor': 1 },
    tools: ['calculator'],
    envOf: {
      gateway: {
        NATS_PASSWORD: '',
        NATS_PASSWORD_FILE: join(secrets, 'nats'),
        REDIS_PASSWORD_FILE: join(secrets, 'redis'),
      },
    },
  });
});
afterAll(async () => {
  await fleet?.stop();
  if (secrets) await rm(secrets, { recursive: true, force: true });
});

const writeSecret = (name: string, value: string) => writeFile(join(secrets, name), value);
const works = async () => (await fleet.call('calculator', { expression: '1 + 1' })).status === 200;
const said = (text: string) => () => fleet.process('gateway').log().includes(text);

it('the password at NATS: the file, then the server, without a restart of the service', async () => {
  await writeSecret('nats', 'pw-gateway-new');
  await eventually(
    'the gateway has read it',
    said('"key":"NATS_PASSWORD","message":"a secret file changed; the new'),
    PATIENCE,
  );
  expect(await works()).toBe(true);
  await fleet.nats.changePassword('gateway', 'pw-gateway-new');
  await eventually('calls run again', works, PATIENCE);
  const { url } = fleet.nats;
  await expect(connect({ servers: url, user: 'gateway', pass: OLD, reconnect: false })).rejects.toThrow(/authoriz/i);
});

it('the password at Redis: two for the time of the change, and another gateway before the old one leaves', async () => {
  const admin = fleet.redis.client();
  await admin.call('ACL', 'SETUSER', 'gateway', '>pw-gateway-new');
  await writeSecret('redis', 'pw-gateway-new');
  await eventually('the gateway says that it needs a restart', said('"key":"REDIS_PASSWORD"'), PATIENCE);
  await fleet.launch('gateway');
  await fleet.terminate('gateway');
  await admin.call('ACL', 'SETUSER', 'gateway', `<${OLD}`);
  expect(await works()).toBe(true);
  const stale = new Redis(fleet.redis.port, { username: 'gateway', password: OLD });
  stale.on('error', () => undefined);
  await expect(stale.ping()).rejects.toThrow(/WRONGPASS|NOAUTH/);
  stale.disconnect();
});
