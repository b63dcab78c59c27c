import 'reflect-metadata';
import { Controller, Injectable, Module, type INestMicroservice } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ToolError, type JsonObject } from '@toolfleet/contracts';
import { readJson } from '@toolfleet/contracts/json-text';
import { traceHeaders } from '@toolfleet/telemetry';
import { FakeClock, startNats, type NatsServer } from '@toolfleet/testing';
import { connect, headers as natsHeaders, type NatsConnection } from 'nats';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { EndpointContext } from './endpoint.js';
import { Endpoint } from './endpoint.js';
import { LocalExchange } from './local-exchange.js';
import { NatsClient } from './nats-client.js';
import { type LargeMessages, NatsStrategy } from './nats-strategy.js';

@Injectable()
class Doubler {
  double(value: number): number {
    return value * 2;
  }
}

@Controller()
class EchoEndpoint {
  static aborted: unknown[] = [];
  constructor(private readonly doubler: Doubler) {}

  @Endpoint('t.double')
  async double(body: { value: number }): Promise<unknown> {
    return { value: this.doubler.double(body.value) };
  }

  @Endpoint('t.context')
  context(body: unknown, context: EndpointContext): unknown {
    return {
      body,
      subject: context.subject,
      call_id: context.callId ?? null,
      remaining: context.remainingMs,
      in_time: context.timeLeftMs > 0 && context.deadlineAt > Date.now(),
    };
  }

  @Endpoint('t.wild.*')
  wild(_body: unknown, context: EndpointContext): string {
    return context.subject;
  }

  @Endpoint('t.trace')
  trace(): unknown {
    return traceHeaders() ?? null;
  }

  @Endpoint('t.trace-through')
  traceThrough(): Promise<unknown> {
    return client.request('t.trace', {});
  }

  @Endpoint('t.refuse')
  refuse(): never {
    throw new ToolError('RATE_LIMITED', { message: 'Zu viel – warte', details: { tool: 'x' }, retryAfterMs: 1500 });
  }

  @Endpoint('t.break')
  break(body: { listener?: string }): never {
    throw new Error(body.listener === 'throws' ? LISTENER_THROWS : 'an internal fault');
  }

  @Endpoint('t.quote')
  quote(body: string): never {
    const faults = Array.from({ length: 5 }, () => ({ path: `/${body}`, [body]: body }));
    throw new ToolError('REQUEST_INVALID', { message: `Unknown field '${body}'`, details: { faults } });
  }

  @Endpoint('t.late', { exec: true })
  async late(): Promise<string> {
    await new Promise((resolve) => setTimeout(resolve, 400));
    return 'late';
  }

  @Endpoint('t.unrenderable')
  unrenderable(): never {
    throw new ToolError('REQUEST_INVALID', { details: { count: 1n as unknown as number } });
  }

  @Endpoint('t.throws-anything')
  throwsAnything(): never {
    throw Object.create(null); // oxlint-disable-line typescript/only-throw-error -- libraries do
  }

  @Endpoint('t.big')
  big(): string {
    return 'x'.repeat(2 * 1024 * 1024);
  }

  @Endpoint('t.until-aborted')
  untilAborted(_body: unknown, context: EndpointContext): Promise<unknown> {
    return new Promise((_, reject) => {
      context.signal.addEventListener('abort', () => {
        EchoEndpoint.aborted.push((context.signal.reason as ToolError).code);
        reject(context.signal.reason);
      });
    });
  }
}

@Module({ controllers: [EchoEndpoint], providers: [Doubler] })
class EchoModule {}

@Controller()
class GuardedEndpoint {
  @Endpoint('t.guarded', { schema: { type: 'object' } })
  guarded(): string {
    return 'served';
  }
}
@Module({ controllers: [GuardedEndpoint] })
class GuardedModule {}

@Controller()
class LargeEndpoint {
  static release: () => void = () => undefined;

  @Endpoint('t.large')
  async large(body: { text: string; waits?: boolean }): Promise<string> {
    if (body.waits) await new Promise<void>((resolve) => (LargeEndpoint.release = resolve));
    return body.text;
  }
}
@Module({ controllers: [LargeEndpoint] })
class LargeModule {}

@Controller()
class CostlyEndpoint {
  static readonly clock = new FakeClock();
  static served: string[] = [];

  @Endpoint('t.costly', { exec: true })
  async costly({ context }: { context: { tenant_id: string } }): Promise<null> {
    CostlyEndpoint.served.push(context.tenant_id);
    CostlyEndpoint.clock.suspend(50);
    return null;
  }
}
@Module({ controllers: [CostlyEndpoint] })
class CostlyModule {}

let nats: NatsServer;
let client: NatsClient;
let plain: NatsConnection;
let app: INestMicroservice;
let strategy: NatsStrategy;
const faults: unknown[] = [];
const LISTENER_THROWS = 'the listener throws as well';

describe.each([
  { link: 'NATS', exchange: undefined },
  { link: 'a process', exchange: new LocalExchange() },
])('over $link', ({ exchange }) => {
  beforeAll(async () => {
    nats = await startNats({ maxPayload: 1024 * 1024 });
    client = await NatsClient.connect({ url: nats.url, name: 'spec', exchange });
    plain = await connect({ servers: nats.url });
    const onFault = (error: unknown): void => {
      if (error instanceof Error && error.message === LISTENER_THROWS) throw error;
      faults.push(error);
    };
    strategy = new NatsStrategy({ connection: client, queue: 'echo', onFault });
    app = await NestFactory.createMicroservice(EchoModule, { strategy, logger: false });
    await app.listen();
  });

  afterAll(async () => {
    await app?.close();
    await client?.close();
    await plain?.close();
    await nats?.stop();
  });

  describe('request and reply', () => {
    it('carries plain JSON both ways, with Nest injection', async () => {
      expect(await client.request('t.double', { value: 21 })).toEqual({ value: 42 });
    });

    it('answers any NATS client: object, number, text, a data key, an empty body', async () => {
      for (const body of ['{"a":1}', '{"data":{"b":2},"id":"x","pattern":"y"}', '7', '"text"', 'null']) {
        const reply = await plain.request('t.context', body, { timeout: 2_000 });
        expect(reply.json<{ body: unknown }>().body).toEqual(JSON.parse(body));
      }
      const empty = await plain.request('t.context', '', { timeout: 2_000 });
      expect(empty.json<{ subject: string }>().subject).toBe('t.context');
    });

    it('answers invalid JSON with 400 headers and a body', async () => {
      const reply = await plain.request('t.context', '{"a":', { timeout: 2_000 });
      expect(reply.headers?.get('Nats-Service-Error-Code')).toBe('400');
      expect(reply.json()).toMatchObject({ code: 'REQUEST_INVALID' });
    });

    it('refuses bodies that are nested deep enough to end a recursion', async () => {
      const nested = (levels: number) => plain.request('t.context', '['.repeat(levels) + ']'.repeat(levels));
      expect((await nested(256)).headers?.get('Nats-Service-Error-Code') ?? '').toBe('');
      for (const levels of [257, 100_000]) {
        expect((await nested(levels)).json()).toMatchObject({
          code: 'REQUEST_INVALID',
          error: 'The body is nested deeper than 256 levels',
        });
      }
    });

    it('keeps the digits of integers, and refuses numbers out of range', async () => {
      const answer = async (body: string) => (await plain.request('t.context', body, { timeout: 2_000 })).string();
      expect(await answer('{"a":[9007199254740993]}')).toContain('"body":{"a":[9007199254740993]}');
      expect(JSON.parse(await answer('{"a":[1e999]}'))).toMatchObject({
        code: 'REQUEST_INVALID',
        error: 'The number 1e999 cannot be represented exactly; send it as a string',
      });
      expect(await answer('{"a":["1e999"]}')).toContain('"body":{"a":["1e999"]}');
    });

    it('gives the handler the concrete subject of a wildcard', async () => {
      expect(await client.request('t.wild.acme', {})).toBe('t.wild.acme');
    });

    it('passes the call id and the remaining time, never a wall clock', async () => {
      const reply = await client.request<Record<string, unknown>>(
        't.context',
        {},
        { timeoutMs: 700, headers: { 'Tf-Call-Id': 'c1' } },
      );
      expect(reply).toMatchObject({ call_id: 'c1', remaining: 700, in_time: true });
    });

    it('propagates the caller’s trace over two hops, and none where there is none', async () => {
      const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
      expect(await client.request('t.trace-through', {}, { headers: { traceparent } })).toEqual({ traceparent });
      expect(await client.request('t.trace-through', {})).toBeNull();
    });

    it('batches many requests and keeps replies apart', async () => {
      const replies = await Promise.all(
        Array.from({ length: 500 }, (_, value) => client.request<{ value: number }>('t.double', { value })),
      );
      expect(replies.map((reply) => reply.value)).toEqual(Array.from({ length: 500 }, (_, value) => value * 2));
      expect(client.inFlight).toBe(0);
    });
  });

  describe('errors', () => {
    it('are rebuilt with code, details, message and retry time', async () => {
      const error = await client.request('t.refuse', {}).catch((thrown: unknown) => thrown as ToolError);
      expect(error).toBeInstanceOf(ToolError);
      expect(error).toMatchObject({
        code: 'RATE_LIMITED',
        message: 'Zu viel – warte',
        details: { tool: 'x' },
        retryAfterMs: 1500,
      });
    });

    it('that are not ToolErrors become INTERNAL and are reported', async () => {
      await expect(client.request('t.break', {})).rejects.toMatchObject({ code: 'INTERNAL' });
      expect(faults.at(-1)).toMatchObject({ message: 'an internal fault' });
    });

    it('EXECUTOR_UNAVAILABLE when no service listens', async () => {
      await expect(client.request('t.nobody', {}, { timeoutMs: 5_000 })).rejects.toMatchObject({
        code: 'EXECUTOR_UNAVAILABLE',
        details: { reason: 'no_responders' },
        facts: { begun: 'no', noResponders: true },
      });
    });

    it('of responders outside the fleet keep their status', async () => {
      const hdrs = natsHeaders();
      hdrs.set('Nats-Service-Error', 'no such thing');
      hdrs.set('Nats-Service-Error-Code', '404');
      plain.subscribe('t.foreign', { callback: (_error, message) => void message.respond('', { headers: hdrs }) });
      await plain.flush();
      await expect(client.request('t.foreign', {})).rejects.toMatchObject({
        code: 'NOT_FOUND',
        message: 'no such thing',
      });
    });

    it('PAYLOAD_TOO_LARGE before sending, RESULT_TOO_LARGE instead of silence', async () => {
      await expect(client.request('t.context', 'x'.repeat(1_100_000))).rejects.toMatchObject({
        code: 'PAYLOAD_TOO_LARGE',
      });
      await expect(client.request('t.big', {})).rejects.toMatchObject({ code: 'RESULT_TOO_LARGE' });
    });
  });

  describe('the nats package', () => {
    it('still has the raw bytes of headers where they are read', async () => {
      const head = natsHeaders();
      head.set('Tf-Call-Id', 'c1');
      const received = new Promise<unknown>((resolve) => {
        plain.subscribe('t.raw', { max: 1, callback: (_error, message) => resolve(message) });
      });
      plain.publish('t.raw', 'body', { headers: head });
      const raw = (await received) as { _msg?: { hdr?: number }; _rdata?: Uint8Array };
      expect(raw._msg?.hdr).toBeGreaterThan(0);
      expect(raw._rdata).toBeInstanceOf(Uint8Array);
    });
  });

  describe('schemas', () => {
    const listen = async (subject: string, schema: JsonObject) => {
      @Controller()
      class CheckedEndpoint {
        @Endpoint(`${subject}.first`)
        first(): string {
          return 'first';
        }

        @Endpoint(subject, { schema })
        checked(body: { name: string }): string {
          return body.name;
        }
      }
      @Module({ controllers: [CheckedEndpoint] })
      class CheckedModule {}
      const checked = new NatsStrategy({ connection: client, queue: 'c' });
      const service = await NestFactory.createMicroservice(CheckedModule, {
        strategy: checked,
        logger: false,
        abortOnError: false,
      });
      await service.listen();
      return service;
    };

    it('are checked before the handler runs', async () => {
      const service = await listen('t.checked', { required: ['name'] });
      expect(await client.request('t.checked', { name: 'n' })).toBe('n');
      await expect(client.request('t.checked', {})).rejects.toMatchObject({
        code: 'REQUEST_INVALID',
        message: expect.stringContaining('name'),
      });
      await service.close();
    });

    it('that do not compile refuse to start, and leave nothing subscribed', async () => {
      await expect(listen('t.wrong', { type: 'nothing' })).rejects.toMatchObject({ code: 'SPEC_INVALID' });
      await expect(client.request('t.wrong.first', {})).rejects.toMatchObject({ code: 'EXECUTOR_UNAVAILABLE' });
    });
  });

  describe('hostile messages', () => {
    it('get replies on inboxes only, whatever reply subject the caller names', async () => {
      const stolen: string[] = [];
      plain.subscribe('budget.>', { callback: (_error, message) => void stolen.push(message.subject) });
      plain.publish('t.double', '{"value":1}', { reply: 'budget.settle' });
      plain.publish('t.refuse', '{}', { reply: 'budget.settle' });
      await plain.flush();
      await client.request('t.double', { value: 1 });
      await plain.flush();
      expect(stolen).toEqual([]);
    });

    it.each(['a b', 'a\r\nPUB b 0', ''])('the subject %j is refused', async (subject) => {
      await expect(client.request(subject, {})).rejects.toMatchObject({ code: 'REQUEST_INVALID' });
      expect(() => client.subscribe(subject, () => undefined)).toThrow();
      expect(client.inFlight).toBe(0);
    });

    it('a receiver that throws does not close the connection', async () => {
      const thrown: unknown[] = [];
      const careful = await NatsClient.connect({
        url: nats.url,
        name: 'x',
        onFault: (error) => void thrown.push(error),
      });
      careful.subscribe('t.event', ({ body }) => {
        throw new Error(`cannot take ${String(body)}`);
      });
      await careful.link.flush();
      client.publish('t.event', 1);
      await expect.poll(() => thrown.length).toBe(1);
      expect(await careful.request('t.double', { value: 2 })).toEqual({ value: 4 });
      await careful.close();
    });

    it('an error that quotes a huge name is shortened in message and details', async () => {
      const reply = await plain.request('t.quote', JSON.stringify('k'.repeat(900_000)), { timeout: 5_000 });
      expect(reply.json()).toMatchObject({ code: 'REQUEST_INVALID' });
      expect(reply.data.length).toBeLessThan(64 * 1024);
    });

    it('an error that cannot be rendered is replied to with its code alone', async () => {
      for (const [subject, code] of [
        ['t.unrenderable', 'REQUEST_INVALID'],
        ['t.throws-anything', 'INTERNAL'],
      ] as const) {
        await expect(client.request(subject, {})).rejects.toMatchObject({ code });
      }
      expect(await client.request('t.double', { value: 3 })).toEqual({ value: 6 });
    });

    it('a reply subject that cannot be published to breaks nothing, not even in the acknowledgement timer', async () => {
      const head = natsHeaders();
      head.set('Tf-Fence', '1');
      const before = faults.length;
      // NATS takes this subject; to us it has a blank.
      plain.publish('t.late', '{}', { reply: '_INBOX.\u00a0x', headers: head });
      await expect.poll(() => faults.length).toBeGreaterThan(before);
      await expect.poll(() => strategy.inFlight).toBe(0);
      expect(await client.request('t.double', { value: 3 })).toEqual({ value: 6 });
    });

    it('an onFault that throws breaks nothing', async () => {
      await expect(client.request('t.break', { listener: 'throws' })).rejects.toMatchObject({ code: 'INTERNAL' });
      expect(await client.request('t.double', { value: 3 })).toEqual({ value: 6 });
    });

    it('an overlong call id is not repeated', async () => {
      const reply = await client.request<Record<string, unknown>>(
        't.context',
        {},
        { headers: { 'Tf-Call-Id': 'c'.repeat(100_000) } },
      );
      expect(reply['call_id']).toBeNull();
    });

    it('an unknown sender is refused before the body is parsed', async () => {
      const guarded = new NatsStrategy({
        connection: client,
        queue: 'guarded',
        admit: async (context) => {
          if (context.headers.get('Authorization') === undefined) throw new ToolError('UNAUTHENTICATED');
        },
      });
      const service = await NestFactory.createMicroservice(GuardedModule, { strategy: guarded, logger: false });
      await service.listen();
      for (const body of ['not JSON', JSON.stringify({ ['k'.repeat(500_000)]: 1 }), '['.repeat(100_000)]) {
        const reply = await plain.request('t.guarded', body, { timeout: 5_000 });
        expect(reply.json()).toMatchObject({ code: 'UNAUTHENTICATED' });
      }
      await service.close();
    });

    it('an entry point counts large messages until their replies are sent, and refuses more', async () => {
      let held = 0;
      const read: number[] = [];
      const bodies: Uint8Array[] = [];
      const large: LargeMessages = {
        hold: (_context, bytes, of) => {
          if (of === 'request' && held + bytes > 400_000) throw new ToolError('RATE_LIMITED');
          held += bytes;
          return () => (held -= bytes);
        },
        read: async (_context, body) => {
          read.push(body.length);
          bodies.push(body);
          return readJson(body);
        },
      };
      const entry = new NatsStrategy({ connection: client, queue: 'large', isEntryPoint: true, large });
      const service = await NestFactory.createMicroservice(LargeModule, { strategy: entry, logger: false });
      await service.listen();
      const text = 'x'.repeat(300_000);
      const waiting = client.request('t.large', { text, waits: true });
      await expect.poll(() => held).toBeGreaterThan(300_000);
      await expect(client.request('t.large', { text })).rejects.toMatchObject({ code: 'RATE_LIMITED' });
      expect(await client.request('t.large', { text: 'small' })).toBe('small');
      LargeEndpoint.release();
      expect(await waiting).toBe(text);
      await expect.poll(() => held).toBe(0);
      expect(await client.request('t.large', { text })).toBe(text);
      await expect.poll(() => held).toBe(0);
      expect(read.map((bytes) => bytes > 300_000)).toEqual([true, true]);
      // The memory of a message that came from a server is freed.
      const kept = () => bodies.filter(({ length }) => length > 0).length;
      await expect.poll(kept).toBe(exchange ? 2 : 0);
      await service.close();
    });

    it('large exec messages are parsed in turns of their tenants, and the event loop rests after each', async () => {
      const { clock } = CostlyEndpoint;
      const served: string[] = (CostlyEndpoint.served = []);
      const executor = new NatsStrategy({ connection: client, queue: 'costly', clock });
      const service = await NestFactory.createMicroservice(CostlyModule, { strategy: executor, logger: false });
      await service.listen();
      const send = (tenant: string, number: number) => {
        const context = { tenant_id: tenant, text: 'x'.repeat(100_000) };
        const message = { call_id: `${tenant}-${number}`, attempt: 1, fence: 1, journalled: false, context };
        return client.requestAcked('t.costly', message, { timeoutMs: 60_000, bumpFence: async () => undefined });
      };
      const replies = Promise.all(['acme', 'acme', 'acme', 'globex'].map(send));
      await expect.poll(() => executor.inFlight).toBe(3);
      expect(served).toEqual(['acme']);
      const afterRest = () => {
        clock.advance(50);
        return served;
      };
      await expect.poll(afterRest).toHaveLength(4);
      expect(served.indexOf('globex')).toBeLessThan(3);
      await replies;
      await service.close();
    });

    it('a header cannot inject another', async () => {
      await expect(client.request('t.double', {}, { headers: { 'Tf-Call-Id': 'x\r\nA: b' } })).rejects.toMatchObject({
        code: 'INTERNAL',
      });
      expect(client.inFlight).toBe(0);
    });
  });

  describe('deadlines and cancellation', () => {
    it('end the request and, by the remaining time, the work', async () => {
      EchoEndpoint.aborted = [];
      await expect(client.request('t.until-aborted', {}, { timeoutMs: 100 })).rejects.toMatchObject({
        code: 'DEADLINE_EXCEEDED',
      });
      await expect.poll(() => EchoEndpoint.aborted).toEqual(['DEADLINE_EXCEEDED']);
      expect(strategy.inFlight).toBe(0);
    });

    it('an aborted signal rejects at once; a signal already aborted sends nothing', async () => {
      const controller = new AbortController();
      const waiting = client.request('t.until-aborted', {}, { signal: controller.signal, timeoutMs: 60_000 });
      setTimeout(() => controller.abort(), 30);
      await expect(waiting).rejects.toMatchObject({ code: 'CANCELLED' });
      await expect(client.request('t.double', { value: 1 }, { signal: controller.signal })).rejects.toMatchObject({
        code: 'CANCELLED',
      });
    });

    it('a deadline in the past is refused without sending', async () => {
      await expect(client.request('t.double', { value: 1 }, { deadlineAt: Date.now() - 1 })).rejects.toMatchObject({
        code: 'DEADLINE_EXCEEDED',
      });
    });
  });
});
