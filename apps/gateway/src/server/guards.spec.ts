import 'reflect-metadata';
import { connect } from 'node:net';
import { Catch, Controller, Get, Module, type ArgumentsHost, type ExceptionFilter } from '@nestjs/common';
import { APP_FILTER, APP_GUARD, NestFactory } from '@nestjs/core';
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CATALOGUE, type Principal, toToolError } from '@toolfleet/contracts';
import { errorBody } from '@toolfleet/contracts/wire';
import { FakeClock } from '@toolfleet/testing';
import { ApiKeys, makeAuthenticate, hasRight, VerifiedCache } from '@toolfleet/access';
import { Allow, AuthGuard, Caller } from './guards.js';
import { MemoryKeyStore } from '../../../../test/doubles/memory-key-store.js';

const clock = new FakeClock();
const store = new MemoryKeyStore();
const keys = new ApiKeys(store, { pepper: 'a pepper of the spec', environment: 'test' }, clock);
const cache = new VerifiedCache(clock);
const authenticate = makeAuthenticate({ keys, cache, local: false });

@Controller()
class ProbeController {
  @Get('whoami')
  whoami(@Caller() caller: Principal): Principal {
    return caller;
  }

  @Get('open')
  @Allow('public')
  open(): string {
    return 'open';
  }
}

@Controller('admin')
@Allow('manage_keys')
class AdminController {
  @Get()
  secret(): string {
    return 'secret';
  }

  @Get('open')
  @Allow('public')
  open(): string {
    return 'open';
  }
}

@Controller('operator')
@Allow('operate_fleet')
class OperatorController {
  @Get()
  secret(): string {
    return 'secret';
  }
}

@Catch()
class ToolErrorFilter implements ExceptionFilter {
  catch(error: unknown, host: ArgumentsHost): void {
    const fault = toToolError(error);
    const reply = host.switchToHttp().getResponse<{ code(status: number): { send(body: unknown): void } }>();
    reply.code(CATALOGUE[fault.code].http).send(errorBody(fault));
  }
}

@Module({
  controllers: [ProbeController, AdminController, OperatorController],
  providers: [
    { provide: APP_GUARD, useFactory: () => new AuthGuard(authenticate) },
    { provide: APP_FILTER, useClass: ToolErrorFilter },
  ],
})
class ProbeModule {}

let app: NestFastifyApplication;
let base: string;
let user: string;
let admin: string;
let operator: string;

beforeAll(async () => {
  app = await NestFactory.create<NestFastifyApplication>(ProbeModule, new FastifyAdapter(), { logger: false });
  await app.listen(0, '127.0.0.1');
  base = await app.getUrl();
  user = (await keys.issue({ tenantId: 'acme', client: 'crm' }, 'spec')).token;
  operator = (await keys.issue({ tenantId: 'operator', client: 'ops', roles: ['operator'] }, 'spec')).token;
  admin = (await keys.issue({ tenantId: 'ops', client: 'root', roles: ['admin'] }, 'spec')).token;
});
afterAll(() => app.close());

const ask = (path: string, init: RequestInit = {}) => fetch(base + path, init);
const as = (token: string): RequestInit => ({ headers: { authorization: `Bearer ${token}` } });

describe('guard', () => {
  it('lets a valid key in, by either header', async () => {
    for (const headers of [{ authorization: `Bearer ${user}` }, { 'x-api-key': user }]) {
      const answer = await ask('/whoami', { headers });
      expect(answer.status).toBe(200);
      expect(await answer.json()).toMatchObject({ tenantId: 'acme', userId: 'crm', via: 'api_key' });
    }
  });

  it('answers 401 with the challenge and what is missing, or one answer for what cannot be known', async () => {
    const cases: [string, RequestInit, RegExp][] = [
      ['/whoami', {}, /^No credentials: send a key as Authorization: Bearer/],
      ['/whoami', { headers: { authorization: 'Bearer nonsense' } }, /^Invalid credentials\.$/],
      ['/whoami', { headers: { authorization: `Bearer ${user.slice(0, -1)}` } }, /^Malformed credentials/],
      ['/whoami', { headers: { authorization: `Basic ${btoa('a:b')}` } }, /^Malformed credentials/],
      ['/whoami', { headers: { authorization: `Bearer ${user}`, 'x-api-key': user } }, /^Two credentials/],
      [`/whoami?api_key=${user}&access_token=${user}&key=${user}`, {}, /^No credentials/],
    ];
    for (const [path, init, message] of cases) {
      const answer = await ask(path, init);
      expect(answer.status).toBe(401);
      expect(answer.headers.get('www-authenticate')).toBe('Bearer realm="toolfleet"');
      expect(await answer.json()).toMatchObject({ error: expect.stringMatching(message), code: 'UNAUTHENTICATED' });
    }
  });

  it('sees a duplicate Authorization header, which parsed headers hide', async () => {
    const { hostname, port } = new URL(base);
    const head = await new Promise<string>((resolve, reject) => {
      const socket = connect(Number(port), hostname, () => {
        const lines = [
          'GET /whoami HTTP/1.1',
          'Host: a',
          `Authorization: Bearer ${user}`,
          'Authorization: Bearer x',
          'Connection: close',
        ];
        socket.write(`${lines.join('\r\n')}\r\n\r\n`);
      });
      let text = '';
      socket
        .on('data', (chunk) => (text += String(chunk)))
        .on('end', () => resolve(text))
        .on('error', reject);
    });
    expect(head).toMatch(/^HTTP\/1\.1 401 /);
  });

  it('leaves public routes open', async () => {
    const answer = await ask('/open');
    expect([answer.status, await answer.text()]).toEqual([200, 'open']);
  });

  it('answers 503 without a challenge when keys cannot be checked', async () => {
    const { token } = await keys.issue({ tenantId: 'acme', client: 'other' }, 'spec');
    const find = store.find.bind(store);
    store.find = () => Promise.reject(new Error('away'));
    const answer = await ask('/whoami', as(token));
    store.find = find;
    expect([answer.status, answer.headers.get('www-authenticate')]).toEqual([503, null]);
  });
});

describe('routes for administrators', () => {
  it('answer 401 without a key, 403 to another key, and serve an administrator', async () => {
    expect((await ask('/admin')).status).toBe(401);
    const refused = await ask('/admin', as(user));
    expect([refused.status, refused.headers.get('www-authenticate')]).toEqual([403, null]);
    expect(await (await ask('/admin', as(admin))).text()).toBe('secret');
  });

  it('are closed to a call that an administrator or operator delegated', () => {
    const principal = { tenantId: 'ops', userId: 'root', roles: ['admin', 'operator'], tools: ['*'] };
    for (const right of ['manage_keys', 'operate_fleet'] as const) {
      expect(hasRight({ ...principal, via: 'api_key' }, right)).toBe(true);
      expect(hasRight({ ...principal, via: 'delegation' }, right)).toBe(false);
    }
  });

  it('also serve operators; routes for operators serve only them', async () => {
    expect(await (await ask('/admin', as(operator))).text()).toBe('secret');
    expect(await (await ask('/operator', as(operator))).text()).toBe('secret');
    for (const token of [user, admin]) {
      const refused = await ask('/operator', as(token));
      expect([refused.status, await refused.json()]).toMatchObject([
        403,
        { details: { role: 'operator', right: 'operate_fleet' } },
      ]);
    }
  });

  it('can be overridden by a handler of the controller', async () => {
    expect((await ask('/admin/open')).status).toBe(200);
  });
});
