import { ToolError, type Principal } from '@toolfleet/contracts';
import type { RegisterAuth } from '@toolfleet/access';
import { apiSubject } from '@toolfleet/contracts/subjects';
import { NatsClient } from '@toolfleet/transport';
import type { SignInSettings } from '@toolfleet/fleet-file';
import { startNats, type NatsServer } from '@toolfleet/testing';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { PublicAddress } from '../server/public-origin.js';
import type { HttpRequest } from './http-call.js';
import { OwnedRoutesController } from './owned-routes.controller.js';
import { SignIn } from './sign-in.controller.js';

let server: NatsServer;
let nats: NatsClient;
let routes: OwnedRoutesController;
const newRoutes = (issuer?: string): OwnedRoutesController => {
  const admit = async () => {
    throw new ToolError('UNAUTHENTICATED');
  };
  const signIn = new SignIn(nats, { issuer } as SignInSettings, {} as PublicAddress);
  return new OwnedRoutesController(nats, { admit } as unknown as RegisterAuth, signIn);
};
beforeAll(async () => {
  server = await startNats();
  nats = await NatsClient.connect({ url: server.url, name: 'gateway' });
  routes = newRoutes();
});
afterAll(async () => {
  await nats?.close();
  await server?.stop();
});

const principal: Principal = { tenantId: 'acme', userId: 'ada', roles: ['admin'], tools: ['*'], via: 'api_key' };
const request = (more: object) => ({ principal, params: {}, query: {}, ...more }) as HttpRequest;

it('asks the owner of a route with the caller and what the row reads', async () => {
  const asked: unknown[] = [];
  nats.link.subscribe(apiSubject('records', 'changeWebhook'), ({ data, reply }) => {
    asked.push(JSON.parse(Buffer.from(data).toString()));
    nats.publish(reply, { id: 'wh_1' });
  });
  const change = (body: object) => routes.ask('PUT /api/v1/webhooks/{id}', request({ params: { id: 'wh_1' }, body }));
  expect(await change({ on: false })).toEqual({ id: 'wh_1' });
  expect(asked).toEqual([{ principal, path: { id: 'wh_1' }, body: { on: false } }]);
  await expect(change({ onn: false })).rejects.toMatchObject({
    code: 'REQUEST_INVALID',
    message: expect.stringMatching(/onn.*did you mean.*on/i),
  });
  expect(asked).toHaveLength(1);
});

it('says which service has no instance that answers', async () => {
  const refused = await routes.ask('GET /api/v1/webhooks', request({})).catch((error: ToolError) => error);
  expect(refused).toMatchObject({
    code: 'SERVICE_UNAVAILABLE',
    message: expect.stringMatching(/^No instance of the service records answers listWebhooks: .*release before \d/),
  });
});

it('lists no session without sign-in, and asks with it', async () => {
  expect(await routes.ask('GET /api/v1/sessions', request({}))).toEqual([]);
  const asked = newRoutes('https://issuer.test').ask('GET /api/v1/sessions', request({}));
  await expect(asked).rejects.toMatchObject({ code: 'SERVICE_UNAVAILABLE' });
});
