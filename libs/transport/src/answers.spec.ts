/** Routes answered by their owner, over a real NATS: what gateways ask, and what they get. */
import { Module, type INestMicroservice } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ToolError, type Principal } from '@toolfleet/contracts';
import { WEBHOOK_ROUTES, type Asked, type Webhook } from '@toolfleet/contracts/resources';
import { apiSubject } from '@toolfleet/contracts/subjects';
import { startNats, type NatsServer } from '@toolfleet/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Answers } from './answers.js';
import { NatsClient } from './nats-client.js';
import { NatsStrategy } from './nats-strategy.js';

const { 'GET /api/v1/webhooks': LIST, 'DELETE /api/v1/webhooks/{id}': REMOVE, ...REST } = WEBHOOK_ROUTES;
const { 'PUT /api/v1/webhooks/{id}': CHANGE } = REST;
const held: ((webhooks: Webhook[]) => void)[] = [];

@Answers(
  { 'GET /api/v1/webhooks': LIST, 'DELETE /api/v1/webhooks/{id}': REMOVE, 'PUT /api/v1/webhooks/{id}': CHANGE },
  { unavailable: 'The store is unavailable' },
)
class WebhookRoutes {
  listWebhooks() {
    return new Promise<Webhook[]>((answer) => held.push(answer));
  }

  removeWebhook({ path }: Asked<'removeWebhook'>) {
    if (path.id === 'unknown') throw new ToolError('NOT_FOUND', { message: `No webhook '${path.id}'` });
    if (path.id === 'broken') throw new Error('the disk is full');
  }

  changeWebhook({ principal, path, body }: Asked<'changeWebhook'>): Promise<Webhook> {
    return Promise.resolve({ ...body, id: path.id, created_by: principal.userId } as Webhook);
  }
}

@Module({ controllers: [WebhookRoutes] })
class ServiceModule {}

let server: NatsServer;
let client: NatsClient;
let service: INestMicroservice;
beforeAll(async () => {
  server = await startNats();
  client = await NatsClient.connect({ url: server.url, name: 'answers' });
  const strategy = new NatsStrategy({ connection: client, queue: 'records' });
  service = await NestFactory.createMicroservice(ServiceModule, { strategy, logger: false });
  await service.listen();
});
afterAll(async () => {
  await service?.close();
  await client?.close();
  await server?.stop();
});

const caller = (tenantId: string): Principal => ({ tenantId, userId: 'ada', roles: [], tools: ['*'], via: 'api_key' });
const ask = (
  operation: string,
  { path = {}, body, tenant = 'acme' }: { path?: object; body?: object; tenant?: string },
) => client.request(apiSubject('records', operation), { principal: caller(tenant), path, body });

describe('a route that its owner answers', () => {
  it('is asked with its caller, path and body, and may have no answer', async () => {
    const asked = { path: { id: 'wh_1' }, body: { on: true } };
    expect(await ask('changeWebhook', asked)).toEqual({ id: 'wh_1', on: true, created_by: 'ada' });
    expect(await ask('removeWebhook', { path: { id: 'wh_1' } })).toBeNull();
  });

  it('refuses what its row does not have, by name, and a question without a caller', async () => {
    const refused = (body: object) => expect(ask('changeWebhook', { path: { id: 'x' }, body })).rejects;
    await refused({ of_a_newer_gateway: 1 }).toMatchObject({
      code: 'REQUEST_INVALID',
      message: expect.stringContaining('of_a_newer_gateway'),
    });
    await refused({ kinds: ['call.finished', 'call.ended'] }).toMatchObject({
      code: 'REQUEST_INVALID',
      message: expect.stringContaining('/body/kinds/1'),
    });
    await expect(client.request(apiSubject('records', 'removeWebhook'), { path: { id: 'x' } })).rejects.toMatchObject({
      code: 'REQUEST_INVALID',
      message: expect.stringContaining('principal'),
    });
  });

  it('fails with the words of its owner, also when its store does', async () => {
    await expect(ask('removeWebhook', { path: { id: 'unknown' } })).rejects.toMatchObject({ code: 'NOT_FOUND' });
    await expect(ask('removeWebhook', { path: { id: 'broken' } })).rejects.toMatchObject({
      code: 'SERVICE_UNAVAILABLE',
      message: 'The store is unavailable',
    });
  });

  it('is refused at once where no release answers it', async () => {
    await expect(ask('listThings', {})).rejects.toMatchObject({ code: 'EXECUTOR_UNAVAILABLE' });
  });

  it('leaves slots to other tenants, and all other work of the service', async () => {
    const waiting = Array.from({ length: 80 }, () => ask('listWebhooks', {}).catch(({ code }: ToolError) => code));
    await expect.poll(() => held.length).toBe(75);
    const other = ask('listWebhooks', { tenant: 'globex' });
    await expect.poll(() => held.length).toBe(76);
    for (const answer of held.splice(0)) answer([]);
    expect(await other).toEqual([]);
    const ends = await Promise.all(waiting);
    expect(ends.filter((end) => end === 'QUEUE_FULL')).toHaveLength(5);
  });
});
