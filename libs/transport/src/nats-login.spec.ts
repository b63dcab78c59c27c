import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { eventually, startNats } from '@toolfleet/testing';
import { expect, it } from 'vitest';
import { NatsClient } from './nats-client.js';

it('reports the subject that the server denies to its user', async () => {
  const server = await startNats({ tenants: ['acme'] });
  const refused: string[] = [];
  const onFault = (error: unknown): void => void refused.push((error as Error).message);
  const client = await NatsClient.connect({ url: server.tenantUrl('acme'), name: 'spec', onFault });
  client.publish('budget.reserve', {});
  await eventually('it is refused', () => refused.length > 0);
  expect(refused).toEqual(['NATS refuses this user to publish on budget.reserve']);
  await client.close();
  await server.stop();
});

it('reconnects with a changed password, without a restart', async () => {
  const server = await startNats({ tenants: ['acme'] });
  let password = 'pw-fleet';
  const url = `nats://127.0.0.1:${server.port}`;
  const client = await NatsClient.connect({ url, name: 'spec', user: 'fleet', password: () => password });
  client.subscribe('echo', () => undefined);

  // As an operator rotates it: first at the server (it drops clients with the old one), then the secret of the service.
  const file = join(server.folder, 'nats.conf');
  await writeFile(file, (await readFile(file, 'utf8')).replace('pw-fleet', 'changed-password'));
  process.kill(server.pid, 'SIGHUP');
  await eventually('the server has dropped it', () => !client.connected);
  password = 'changed-password';
  await eventually('it is back', () => client.connected);
  expect(() => client.publish('echo', {})).not.toThrow();
  await client.close();
  await server.stop();
});
