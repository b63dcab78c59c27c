import { once } from 'node:events';
import { createServer, request as sendRequest, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { SystemClock } from '@toolfleet/resilience';
import { expect, it } from 'vitest';
import { dropRest, type AuthenticatedRequest } from './request-body.js';
import { BodyReader } from './body-reader.js';

const MIB = 1024 * 1024;

it('drops the rest of a body without keeping its memory until garbage is collected', async () => {
  const bodies = new BodyReader(new SystemClock());
  const body = Buffer.alloc(64 * MIB, 'x');
  const usual = process.memoryUsage().arrayBuffers;
  let most = 0;
  const received = Promise.withResolvers<IncomingMessage>();
  const server = createServer((raw, response) => {
    raw.on('end', () => response.end());
    received.resolve(raw);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const sent = sendRequest({ port, method: 'POST', headers: { 'content-length': body.length } });
  const answered = once(sent, 'response') as Promise<[IncomingMessage]>;
  sent.end(body);
  const raw = await received.promise;
  dropRest({ raw, server: { bodies } } as unknown as AuthenticatedRequest);
  raw.on('data', () => (most = Math.max(most, process.memoryUsage().arrayBuffers - usual)));
  const [response] = await answered;
  response.resume();
  expect(most).toBeLessThan(4 * MIB);
  server.close();
});
