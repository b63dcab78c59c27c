import 'reflect-metadata';
import { request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { Body, Controller, Get, Module, Param, Post, Res } from '@nestjs/common';
import { APP_FILTER } from '@nestjs/core';
import { docUrl, ToolError, type Principal } from '@toolfleet/contracts';
import { SystemClock } from '@toolfleet/resilience';
import type { ServiceHost } from '@toolfleet/service';
import { eventually } from '@toolfleet/testing';
import type { NatsStrategy } from '@toolfleet/transport';
import type { FastifyReply } from 'fastify';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { BodyReader } from './body-reader.js';
import { GatewayServer } from './gateway-server.js';
import { ErrorFilter } from './error.filter.js';
import { MemoryAccount } from './memory-account.js';

let inWork = 0;
let mostInWork = 0;
let largeMade = 0;
/** Requests that wait until their client has left. */
let waiting = 0;

@Controller('echo')
class EchoController {
  @Get('slowly/:number')
  async slowly(@Param('number') number: string) {
    mostInWork = Math.max(mostInWork, (inWork += 1));
    await new Promise((resolve) => setTimeout(resolve, 20));
    inWork -= 1;
    return { number };
  }

  @Get('large/:bytes')
  large(@Param('bytes') bytes: string) {
    largeMade += 1;
    return { text: 'x'.repeat(Number(bytes)) };
  }

  @Get('left/:bytes')
  async left(@Param('bytes') bytes: string, @Res({ passthrough: true }) reply: FastifyReply) {
    waiting += 1;
    await new Promise((resolve) => reply.raw.once('close', resolve));
    waiting -= 1;
    return { text: 'x'.repeat(Number(bytes)) };
  }

  @Post()
  body(@Body() body: unknown) {
    return { body: body ?? null };
  }

  @Get(':name')
  name(@Param('name') name: string) {
    return { name };
  }
}

@Module({
  controllers: [EchoController],
  providers: [{ provide: APP_FILTER, useValue: new ErrorFilter(new SystemClock()) }],
})
class EchoModule {}

/** A NATS transport that does nothing. */
const NO_NATS = {
  listen: (done: () => void) => done(),
  close: () => undefined,
  drain: async () => undefined,
  on: () => undefined,
  unwrap: () => undefined,
} as unknown as NatsStrategy;

let port = 0;
const host = {
  announce: (facts: { port: number }) => (port = facts.port),
  clock: new SystemClock(),
} as unknown as ServiceHost;
/** An idle connection that is not closed outlasts every test. */
const CONNECTIONS = {
  keepAliveMs: 3_600_000,
  requestTimeoutMs: 5_000,
  maxConnections: 50,
  maxConnectionsPerAddress: 40,
};
const memory = new MemoryAccount({ maxBodyBytes: 1_000_000, maxBytes: 4_000_000 });
let droppedConnections = 0;
let underWay = 0;
const mayAnswer = Promise.withResolvers<object>();
const server = new GatewayServer(
  { module: EchoModule },
  NO_NATS,
  {
    host: '127.0.0.1',
    port: 0,
    sharesPort: false,
    maxBodyBytes: 1_000_000,
    memory,
    bodies: new BodyReader(new SystemClock()),
    connections: CONNECTIONS,
    onConnectionRefused: () => (droppedConnections += 1),
  },
  host,
  async ({ headers }) => {
    if (headers['x-stranger'] !== undefined) throw new ToolError('UNAUTHENTICATED');
    const tenantId = headers['x-tenant'];
    return typeof tenantId === 'string' ? ({ tenantId } as Principal) : undefined;
  },
  [
    {
      mount: async (fastify) => {
        fastify.get('/files/*', { exposeHeadRoute: false }, async () => ({}));
        fastify.get('/under-way', { exposeHeadRoute: false }, () => {
          underWay += 1;
          return mayAnswer.promise;
        });
        fastify.get('/past-fastify', { exposeHeadRoute: false }, (_request, reply) => {
          underWay += 1;
          reply.hijack();
          void mayAnswer.promise.then(() => reply.raw.end('{}'));
        });
      },
      drain: async () => undefined,
    },
  ],
);

beforeAll(() => server.start());
afterAll(() => server.stop());

interface Sent {
  path?: string;
  method?: string;
  type?: string | null;
  body?: string | Buffer;
  /** Sends the body without its length. */
  isChunked?: boolean;
}

/** Sends a request unchanged: `fetch` would normalize paths and add a content type. */
function send({ path = '/echo', method = 'POST', type = 'application/json', body, isChunked }: Sent) {
  return new Promise<{ status: number; allow?: string; body: any }>((resolve, reject) => {
    const headers = type === null ? {} : { 'content-type': type };
    const sent = request({ host: '127.0.0.1', port, path, method, headers }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('end', () => {
        const text = Buffer.concat(chunks).toString();
        const { allow } = response.headers;
        resolve({
          status: response.statusCode ?? 0,
          ...(allow === undefined ? {} : { allow }),
          body: text === '' ? undefined : JSON.parse(text),
        });
      });
    });
    sent.on('error', reject);
    if (isChunked) sent.flushHeaders();
    sent.end(body);
  });
}

describe('a body', () => {
  it.each<[string, Sent, unknown]>([
    ['JSON', { body: '{"a":[1,"ü"]}' }, { a: [1, 'ü'] }],
    ['JSON of another kind', { type: 'application/vnd.api+json; charset=utf-8', body: '[1]' }, [1]],
    ['JSON behind a byte order mark', { body: '\ufeff{"a":1}' }, { a: 1 }],
    ['nothing', { body: '' }, null],
    ['nothing of no type', { type: null }, null],
    ['chunks', { body: '["ü"]', isChunked: true }, ['ü']],
    ['chunks above 64 KiB', { body: `["${'ü'.repeat(40_000)}"]`, isChunked: true }, ['ü'.repeat(40_000)]],
    ['a text for the thread', { body: `["${'ü'.repeat(400_000)}"]` }, ['ü'.repeat(400_000)]],
    ['as deep as allowed', { body: '['.repeat(256) + ']'.repeat(256) }, expect.any(Array)],
    ['chunks for the thread', { body: `["${'ü'.repeat(140_000)}"]`, isChunked: true }, ['ü'.repeat(140_000)]],
  ])('of %s is read', async (_, sent, body) => {
    expect(await send(sent)).toEqual({ status: 201, body: { body } });
  });

  it('keeps keys such as __proto__ as data and changes no prototype', async () => {
    const { status, body } = await send({ body: '{"__proto__":{"x":1},"constructor":{"prototype":{"x":1}}}' });
    expect(status).toBe(201);
    expect(Object.hasOwn(body.body, '__proto__')).toBe(true);
    expect(({} as { x?: number }).x).toBeUndefined();
  });

  it.each<[string, Sent, RegExp]>([
    ['cut off', { body: '{"a":' }, /not JSON/],
    ['a form, as curl -d sends it', { type: 'application/x-www-form-urlencoded', body: '{"a":1}' }, /Content-Type/],
    ['plain text', { type: 'text/plain', body: '{"a":1}' }, /must be application\/json, not 'text\/plain'/],
    ['without a type', { type: null, body: '{"a":1}' }, /Content-Type must be application\/json/],
    ['large and cut off', { body: `{"a":"${'x'.repeat(400_000)}` }, /not JSON/],
    ['large and plain text', { type: 'text/plain', body: 'x'.repeat(400_000) }, /must be application\/json/],
    ['not UTF-8', { body: Buffer.from([0x22, 0xff, 0x22]) }, /not UTF-8/],
    ['too deep', { body: '['.repeat(257) + ']'.repeat(257) }, /deeper than 256/],
    ['deep enough for a stack overflow', { body: '['.repeat(40_000) + ']'.repeat(40_000) }, /deeper than 256/],
  ])('that is %s is refused by name', async (_, sent, message) => {
    expect(await send(sent)).toEqual({
      status: 400,
      body: {
        error: expect.stringMatching(message),
        code: 'REQUEST_INVALID',
        hint: expect.any(String),
        doc_url: docUrl('REQUEST_INVALID'),
      },
    });
  });

  it.each([false, true])('is refused with 413 when it is too large (in chunks: %s)', async (isChunked) => {
    expect(await send({ body: `"${'x'.repeat(1_000_001)}"`, isChunked })).toMatchObject({
      status: 413,
      body: { code: 'PAYLOAD_TOO_LARGE', error: expect.stringContaining('too large') },
    });
  });

  it.each([
    [60_000, false],
    [300_000, true],
  ])('is refused with 413 when it has too many names and values: %i (in chunks: %s)', async (count, isChunked) => {
    expect(await send({ body: `[${'1,'.repeat(count)}1]`, isChunked })).toMatchObject({
      status: 413,
      body: { code: 'PAYLOAD_TOO_LARGE', error: expect.stringContaining('50000 names and values') },
    });
  });
});

describe('a large body', () => {
  const begin = (length: number): string =>
    head('Content-Type: application/json', `Content-Length: ${length}`, 'X-Tenant: large');

  it('with too many values is refused before its rest arrives, and its connection ends', async () => {
    const { socket, text, ended } = open();
    socket.write(`${begin(900_000)}[${'1,'.repeat(150_000)}`);
    await ended;
    expect(text()).toMatch(/^HTTP\/1.1 413 [^]*\r\nconnection: close\r\n[^]*PAYLOAD_TOO_LARGE/i);
    await expect.poll(() => memory.held('large')).toBe(0);
  });

  it('that a client does not finish takes no memory', async () => {
    const { socket } = open();
    socket.write(`${begin(900_000)}["${'x'.repeat(400_000)}`);
    await expect.poll(() => memory.held('large')).toBeGreaterThan(300_000);
    socket.destroy();
    await expect.poll(() => memory.held('large')).toBe(0);
  });
});

describe('a path', () => {
  it.each([
    ['unknown', 'POST', '/nope?key=secret', 404, 'NOT_FOUND', 'Cannot POST /nope'],
    ['that cannot be decoded', 'GET', '/echo/%', 400, 'REQUEST_INVALID', expect.stringContaining('not a valid url')],
    [
      'with an endless part',
      'GET',
      `/echo/${'x'.repeat(301)}`,
      400,
      'REQUEST_INVALID',
      'A part of the path is too long',
    ],
  ])('%s is refused with an error of the catalogue', async (_, method, path, status, code, error) => {
    expect(await send({ method, path, type: null })).toEqual({
      status,
      body: { error, code, hint: expect.any(String), doc_url: `/docs/errors#${code.toLowerCase()}` },
    });
  });

  it.each([
    ['POST', '/echo/x?key=secret', 'GET, HEAD', '/echo/x'],
    ['GET', '/echo', 'POST', '/echo'],
    ['DELETE', '/files/a/b', 'GET', '/files/a/b'],
  ])('%s %s is refused with the methods there are', async (method, path, allow, shown) => {
    expect(await send({ method, path, type: null })).toEqual({
      status: 405,
      allow,
      body: {
        error: `${method} is not a method of ${shown}: use ${allow.replace(', ', ' or ')}`,
        code: 'METHOD_NOT_ALLOWED',
        hint: expect.any(String),
        doc_url: docUrl('METHOD_NOT_ALLOWED'),
        details: { allow: allow.split(', ') },
      },
    });
  });

  it('takes names as long as tools may have them', async () => {
    const name = 'x'.repeat(300);
    expect(await send({ path: `/echo/${name}`, method: 'GET', type: null })).toEqual({ status: 200, body: { name } });
  });
});

/** A raw connection: what it received so far, and when it ended. */
function open(): { socket: Socket; text: () => string; ended: Promise<void> } {
  const socket = connect(port, '127.0.0.1');
  let received = '';
  socket.on('data', (chunk) => (received += String(chunk))).on('error', () => undefined);
  const ended = new Promise<void>((resolve) => socket.once('close', () => resolve()));
  return { socket, text: () => received, ended };
}

const head = (...lines: string[]): string =>
  `${['POST /echo HTTP/1.1', 'Host: localhost', ...lines].join('\r\n')}\r\n\r\n`;

describe('a stranger', () => {
  it.each([
    ['of a large body', 'Content-Length: 900000'],
    ['of a body without an end', 'Transfer-Encoding: chunked'],
    ['of a body above the limit', 'Content-Length: 9000000'],
  ])('is refused before the rest %s arrives, and its connection ends', async (_what, length) => {
    const { socket, text, ended } = open();
    socket.write(head('X-Stranger: yes', 'Content-Type: application/json', length));
    socket.write(length.startsWith('T') ? '10\r\n{"a":"aaaaaaaaaa\r\n' : '{"a":"');
    await ended;
    expect(text()).toMatch(/^HTTP\/1.1 401 [^]*\r\nconnection: close\r\n/i);
  });

  it('gets its answer when it sends all of the body', async () => {
    const { socket, text } = open();
    const body = JSON.stringify({ a: 'a'.repeat(800_000) });
    socket.write(head('X-Stranger: yes', 'Content-Type: application/json', `Content-Length: ${body.length}`));
    socket.write(body);
    await expect.poll(text).toMatch(/^HTTP\/1.1 401 [^]*UNAUTHENTICATED/);
    socket.destroy();
  });

  it('learns of a missing path only that it is missing', async () => {
    expect(await send({ path: '/nowhere', body: '{}' })).toMatchObject({ status: 404 });
  });
});

/** Body of the answer to an unreadable request. */
const UNREADABLE = {
  error: expect.any(String),
  code: 'REQUEST_INVALID',
  hint: expect.any(String),
  doc_url: docUrl('REQUEST_INVALID'),
};

describe('connections', () => {
  it.each([
    ['headers', 'POST /echo HTTP/1.1\r\nHost: localhost\r\n'],
    ['a body', head('Content-Type: application/json', 'Content-Length: 1000') + '{'],
  ])('that never finish sending %s are closed', async (_what, sent) => {
    const { socket, text, ended } = open();
    socket.write(sent);
    await ended;
    expect(text()).toMatch(/^HTTP\/1.1 408 /);
    expect(JSON.parse(text().split('\r\n\r\n')[1]!)).toMatchObject(UNREADABLE);
  });

  it.each<[string, string, number, RegExp]>([
    ['of another protocol', 'SSH-2.0-OpenSSH\r\n\r\n', 400, /not HTTP\/1.1: Parse Error/],
    ['of TLS', '\u0016\u0003\u0001\u0002\u0000\u0001', 400, /not HTTP\/1.1/],
    ['with two lengths', head('Content-Length: 1', 'Content-Length: 2'), 400, /not HTTP\/1.1/],
    ['with headers without an end', head(`X-Long: ${'x'.repeat(20_000)}`), 431, /longer than 16384 bytes/],
  ])('%s are refused in the shape of every error', async (_what, sent, status, message) => {
    const { socket, text, ended } = open();
    socket.write(sent);
    await ended;
    const [answer = '', body = ''] = text().split('\r\n\r\n');
    expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    expect(JSON.parse(body)).toEqual({ ...UNREADABLE, error: expect.stringMatching(message) });
  });

  it('stay open between requests for the set time, which the answer names', async () => {
    const { socket, text } = open();
    socket.write(head('Content-Type: application/json', 'Content-Length: 2') + '{}');
    await expect.poll(text).toMatch(/^keep-alive: timeout=3600\r$/im);
    socket.destroy();
  });

  it('from one address beyond its limit are closed, and others go on', async () => {
    const first = open();
    const many = Array.from({ length: CONNECTIONS.maxConnectionsPerAddress + 9 }, open);
    await Promise.any(many.map(({ ended }) => ended));
    first.socket.write(head('Content-Type: application/json', 'Content-Length: 2') + '{}');
    await expect.poll(first.text).toMatch(/^HTTP\/1.1 201 /);
    await expect.poll(() => droppedConnections).toBeGreaterThanOrEqual(9);
    for (const { socket } of [first, ...many]) socket.destroy();
    // The places are given back.
    await expect.poll(async () => (await send({ body: '{}' }).catch(() => undefined))?.status).toBe(201);
  });
});

describe('the bodies of all callers', () => {
  /** Sends the head of a request and part of its body; resolves with the text of the response once there is one. */
  function begin(tenant: string, declared: number, sent: number) {
    const socket = connect(port, '127.0.0.1').on('error', () => undefined);
    const answer = new Promise<string>((resolve) => {
      let text = '';
      socket.on('data', (chunk: Buffer) => resolve((text += chunk.toString())));
      socket.on('close', () => resolve(text));
    });
    socket.write(`POST /echo HTTP/1.1\r\nHost: x\r\nX-Tenant: ${tenant}\r\nContent-Type: application/json\r\n`);
    socket.write(`Content-Length: ${declared}\r\n\r\n`);
    socket.write(`"${'x'.repeat(sent - 1)}`);
    return { socket, answer };
  }

  it('have a bound in bytes, and a share for each tenant; what is held is given back', async () => {
    const held = ['a', 'b', 'c', 'd'].map((tenant) => begin(tenant, 990_000, 980_000));
    await expect.poll(() => memory.total).toBeGreaterThanOrEqual(4 * 980_000);
    expect(await begin('a', 500_000, 400_000).answer).toMatch(/^HTTP\/1.1 429[^]*retry-after: 1\r\n/i);
    expect(await begin('e', 500_000, 400_000).answer).toMatch(/^HTTP\/1.1 503[^]*retry-after: 1\r\n/i);
    const small = JSON.stringify('x'.repeat(60_000));
    expect((await send({ body: small })).status, 'a small body needs no share').toBe(201);
    for (const { socket } of held.slice(0, 3)) socket.destroy();
    held[3]!.socket.write(`${'x'.repeat(9_999)}"`);
    expect(await held[3]!.answer).toMatch(/^HTTP\/1\.1 201/);
    held[3]!.socket.destroy();
    const large = JSON.stringify('y'.repeat(900_000));
    await eventually('there is room again', async () => (await send({ body: large })).status === 201);
    expect((await send({ body: large })).body).toEqual({ body: 'y'.repeat(900_000) });
  });

  it('are not taken by a declared length', async () => {
    const idle = Array.from({ length: 8 }, () => begin('a', 990_000, 10));
    expect((await send({ body: JSON.stringify('y'.repeat(900_000)) })).status).toBe(201);
    for (const { socket } of idle) socket.destroy();
  });
});

describe('responses', () => {
  const getOf = (path: string): string => `GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`;

  /** Sends requests on one connection without waiting for responses. */
  function pipeline(paths: string[]) {
    const socket = connect(port, '127.0.0.1').on('error', () => undefined);
    let received = '';
    socket.on('data', (chunk: Buffer) => (received += chunk.toString()));
    socket.write(paths.map(getOf).join(''));
    return { socket, received: () => received };
  }

  it('of pipelined requests come in order, with one request in work', async () => {
    const { socket, received } = pipeline(Array.from({ length: 10 }, (_, index) => `/echo/slowly/${index}`));
    await expect.poll(() => received().match(/"number":"\d"/g)?.length).toBe(10);
    expect(
      received()
        .match(/(?<="number":")\d/g)
        ?.join(''),
    ).toBe('0123456789');
    expect(mostInWork).toBe(1);
    socket.destroy();
  });

  it('of more pipelined requests than wait on a connection end it', async () => {
    const { socket } = pipeline(Array.from({ length: 100 }, (_, index) => `/echo/slowly/${index}`));
    await expect.poll(() => socket.closed).toBe(true);
    await expect.poll(() => inWork).toBe(0);
  });

  it('that clients leave unread count until they are read or their connection ends', async () => {
    const large = '/echo/large/30000000'; // more than the kernel takes
    await expect.poll(() => memory.total).toBe(0);
    const unread = pipeline([large]);
    unread.socket.pause();
    await expect.poll(() => memory.total).toBeGreaterThan(0);
    const status = async (sent: Sent) => (await send(sent)).status;
    expect(await status({ path: large, method: 'GET' }), 'another one').toBe(429);
    const made = largeMade;
    expect(await status({ path: large, method: 'GET' }), 'the same again').toBe(429);
    expect(largeMade, 'responses made for it').toBe(made);
    expect(await status({ body: '{}' })).toBe(429);
    expect(await status({ path: '/echo/x', method: 'GET' }), 'a small response needs no share').toBe(200);
    unread.socket.destroy();
    await expect.poll(() => memory.total).toBe(0);
    expect(await status({ path: large, method: 'GET' })).toBe(200);
  });

  it('whose clients have left do not count', async () => {
    await expect.poll(() => memory.total).toBe(0);
    const { socket } = pipeline(['/echo/left/200000']);
    await expect.poll(() => waiting).toBe(1);
    socket.destroy();
    await expect.poll(() => waiting).toBe(0);
    expect((await send({ path: '/echo/x', method: 'GET' })).status, 'a later request').toBe(200);
    expect(memory.total).toBe(0);
  });
});

describe('a drain', () => {
  it('closes the connections of calls under way after their answers', async () => {
    const clients = ['/under-way', '/past-fastify'].map((path) => {
      const client = open();
      client.socket.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`);
      return client;
    });
    await expect.poll(() => underWay).toBe(2);
    const drained = server.drain();
    const isOpen = () => fetch(`http://127.0.0.1:${port}/files/a`).then(Boolean, () => false);
    await expect.poll(isOpen).toBe(false);
    mayAnswer.resolve({});
    for (const { ended, text } of clients) {
      await ended;
      expect(text()).toMatch(/^HTTP\/1.1 200 /);
    }
    expect(clients[0]!.text()).toMatch(/\r\nconnection: close\r\n/i);
    await drained;
  });
});
