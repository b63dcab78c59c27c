import 'reflect-metadata';
import { Module, type ExecutionContext } from '@nestjs/common';
import { APP_GUARD, NestFactory } from '@nestjs/core';
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';
import { Clock, SystemClock } from '@toolfleet/resilience';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { EventStreams } from '../server/event-streams.js';
import { Readiness } from './health.controller.js';
import type { CallBody, CallEvent } from '@toolfleet/contracts';
import { AsyncCalls, type AcceptedCall } from '@toolfleet/results';
import { CallsController } from './calls.controller.js';
import { MemoryAccount } from '../server/memory-account.js';

/** A tenant may have 16 MiB. */
const MEMORY = new MemoryAccount({ maxBodyBytes: 1, maxBytes: 64 * 1024 * 1024 });

const ended: AcceptedCall = {
  callId: 'ended',
  tenantId: 't',
  tool: 'x',
  state: 'succeeded',
  acceptedAt: 1,
  finishedAt: 7,
};
const calls: Record<string, { call: AcceptedCall; events: CallEvent[] }> = {
  ended: {
    call: ended,
    events: [
      { id: '1-0', type: 'accepted' },
      { id: '2-0', type: 'started' },
      { id: '3-0', type: 'done', state: 'succeeded' },
    ],
  },
  large: { call: { ...ended, callId: 'large', resultText: Buffer.from('{"output":"é"}') }, events: [] },
  // A synchronous call of the journal: it went through no queue.
  journalled: { call: { ...ended, callId: 'journalled' }, events: [] },
  // A call that the caller sees and may not read.
  foreign: {
    call: { ...ended, callId: 'foreign', sight: 'state', isWithheld: true },
    events: [
      { id: '1-0', type: 'accepted' },
      { id: '2-0', type: 'progress', message: 'secret', progress: 1, total: 2 },
      { id: '3-0', type: 'done', state: 'failed', result: { error: 'secret' } as CallBody },
    ],
  },
  // Ends while the stream is open, without an event: its worker was lost.
  lost: { call: { ...ended, callId: 'lost', state: 'claimed' }, events: [{ id: '1-0', type: 'accepted' }] },
};
const store = {
  get: async (_caller: unknown, id: string) => calls[id]!.call,
  getText: async (_caller: unknown, id: string) => calls[id]!.call,
  getState: async (_caller: unknown, id: string) => calls[id]!.call,
  isWithheld: async (_caller: unknown, { isWithheld = false }: AcceptedCall) => isWithheld,
  events: async (id: string, after = '') => calls[id]!.events.filter((event) => event.id > after),
} as unknown as AsyncCalls;

class AnyCaller {
  canActivate(context: ExecutionContext): boolean {
    context.switchToHttp().getRequest().principal = {
      tenantId: 't',
      userId: 'u',
      roles: [],
      tools: ['*'],
      via: 'local',
    };
    return true;
  }
}

@Module({
  controllers: [CallsController],
  providers: [
    { provide: AsyncCalls, useValue: store },
    { provide: EventStreams, useValue: new EventStreams({ maxStreams: 500, maxStreamsPerTenant: 100 }, MEMORY) },
    { provide: Clock, useValue: new SystemClock() },
    { provide: Readiness, useValue: { draining: new AbortController().signal } },
    { provide: APP_GUARD, useClass: AnyCaller },
  ],
})
class CallsModule {}

let app: NestFastifyApplication;
let base: string;
beforeAll(async () => {
  app = await NestFactory.create<NestFastifyApplication>(CallsModule, new FastifyAdapter(), { logger: false });
  await app.listen(0, '127.0.0.1');
  base = await app.getUrl();
});
afterAll(() => app.close());

const follow = (id: string, lastId?: string) =>
  fetch(`${base}/api/v1/calls/${id}/events`, { headers: lastId === undefined ? {} : { 'last-event-id': lastId } });
const types = (text: string) => [...text.matchAll(/^event: (\w+)$/gm)].map((match) => match[1]);

test.each([
  [undefined, ['accepted', 'started', 'done']],
  ['1-0', ['started', 'done']],
  ['not an id', ['accepted', 'started', 'done']],
  ['99999999999999999999999999-0', ['accepted', 'started', 'done']],
])('a stream resumes after the event %s', async (lastId, expected) => {
  const answer = await follow('ended', lastId);
  expect(answer.headers.get('content-type')).toContain('text/event-stream');
  expect(types(await answer.text())).toEqual(expected);
});

test('a result that is text becomes part of the body unparsed', async () => {
  const answer = await fetch(`${base}/api/v1/calls/large`);
  expect(answer.headers.get('content-type')).toBe('application/json; charset=utf-8');
  expect(await answer.json()).toEqual({
    call_id: 'large',
    tool: 'x',
    status: 'succeeded',
    accepted_at: '1970-01-01T00:00:00.001Z',
    finished_at: '1970-01-01T00:00:00.007Z',
    result: { output: 'é' },
  });
});

test('a stream of a call that is not for its reader has states only', async () => {
  const text = await (await follow('foreign')).text();
  expect(types(text)).toEqual(['accepted', 'progress', 'done']);
  expect(text).toContain('"state":"failed","result_omitted":{"reason":"permission"');
  expect(text).not.toContain('secret');
});

test('after the last event it answers 204, on which browsers stop reconnecting', async () => {
  expect((await follow('ended', '3-0')).status).toBe(204);
});

test('a stream without events ends with its call', async () => {
  const text = await (await follow('journalled')).text();
  expect(types(text)).toEqual(['done']);
  expect(text).toContain('"state":"succeeded"');
});

test('a call that ends without an event also ends its stream', async () => {
  const stream = (await follow('lost')).text();
  calls.lost!.call = { ...calls.lost!.call, state: 'failed' };
  expect(types(await stream)).toEqual(['accepted', 'done']);
});
