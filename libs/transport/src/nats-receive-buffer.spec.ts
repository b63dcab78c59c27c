import { randomBytes } from 'node:crypto';
import { startNats, type NatsServer } from '@toolfleet/testing';
import { connect, headers, type Msg } from 'nats';
import { Parser } from 'nats/lib/nats-base-client/parser.js';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { receiveIntoOneBuffer } from './nats-receive-buffer.js';

let server: NatsServer;
beforeAll(async () => {
  server = await startNats();
});
afterAll(() => server.stop());

it('receives large messages whole, each into a buffer of its size, between small ones', async () => {
  receiveIntoOneBuffer();
  const [sender, receiver] = await Promise.all([connect({ servers: server.url }), connect({ servers: server.url })]);
  const chunks: Uint8Array[] = [];
  const { parse } = Parser.prototype;
  Parser.prototype.parse = function (this: Parser, chunk: Uint8Array): void {
    chunks.push(chunk);
    parse.call(this, chunk);
  };
  const received: Msg[] = [];
  receiver.subscribe('large', { callback: (_error, message) => void received.push(message) });
  await receiver.flush();
  const bodies = [10, 300_000, 0, 5_000_000, 65_536, 1_000_001, 17].map((size) => randomBytes(size));
  for (const [index, body] of bodies.entries()) {
    const sent = headers();
    sent.set('index', String(index));
    sender.publish('large', body, { headers: sent });
  }
  await sender.flush();
  await receiver.flush();
  expect(received.map(({ data }) => Buffer.from(data).toString('base64'))).toEqual(
    bodies.map((body) => body.toString('base64')),
  );
  expect(received.map((message) => message.headers?.get('index'))).toEqual(bodies.map((_, index) => String(index)));
  const largest = received[3]!.data;
  expect(largest.buffer.byteLength - largest.byteLength, 'room beyond the message: its headers').toBeLessThan(100);
  const freed = chunks.filter(({ length }) => length === 0);
  expect(freed.length, 'chunks within the largest message, of 64 KiB at most').toBeGreaterThan(70);
  Parser.prototype.parse = parse;
  await Promise.all([sender.close(), receiver.close()]);
});
