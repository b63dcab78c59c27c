/** Connections that send half of a request, read none of their answers or name impossible hosts, against a real gateway. */
import { connect as connectTcp, type Socket } from 'node:net';
import type { CallBody, ToolError } from '@toolfleet/contracts';
import { HEADERS, SUBJECTS } from '@toolfleet/contracts/subjects';
import { eventually } from '@toolfleet/testing';
import { NatsClient } from '@toolfleet/transport';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { AbusedFleet, FULL_LENGTH, scaled } from './abused-fleet.js';

const MIB = 1024 * 1024;

let abused: AbusedFleet;
beforeAll(async () => {
  abused = await AbusedFleet.start({
    services: { gateway: 1, registry: 1, budget: 1, 'builtin-executor': 1 },
    tools: ['calculator', 'text_process'],
    env: {
      BUILTIN_TOOLSETS: 'compute',
      // 16 MiB for a tenant.
      GATEWAY_MAX_BODIES_MB: '64',
      ...(FULL_LENGTH ? {} : { GATEWAY_REQUEST_TIMEOUT_MS: '4000' }),
    },
  });
});
afterAll(() => abused?.stop());

const sockets: Socket[] = [];
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
});

interface RawConnection {
  socket: Socket;
  text: () => string;
  isClosed: () => boolean;
}

function open(): RawConnection {
  const { port, hostname } = new URL(abused.fleet.url());
  const socket = connectTcp(Number(port), hostname).on('error', () => undefined);
  sockets.push(socket);
  let received = '';
  socket.on('data', (chunk) => (received += String(chunk)));
  return { socket, text: () => received, isClosed: () => socket.closed };
}

/** Bytes outside the heap, where bodies are gathered, and resident bytes. */
async function gatewayMemory(): Promise<{ external: number; resident: number }> {
  const { body } = await abused.fleet.process('gateway').admin('/metrics');
  const value = (name: string): number => Number(new RegExp(`^${name}(?:{[^}]*})? ([\\d.e+]+)`, 'm').exec(body)?.[1]);
  return { external: value('nodejs_external_memory_bytes'), resident: value('process_resident_memory_bytes') };
}

describe('half of a request', () => {
  it.each(['/api/v1/tools/calculator/execute', '/tools/openapi/register', '/mcp'])(
    '20 strangers on %s who send 4 of 8 MB are refused unread and closed within 30 s',
    async (path) => {
      const before = await gatewayMemory();
      const startedAt = performance.now();
      const half = Buffer.alloc(4 * MIB, 'x');
      let most = 0;
      await abused.withoutLoss(async () => {
        const all = Array.from({ length: 20 }, open);
        for (const { socket } of all) {
          socket.write(`POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n`);
          socket.write(`Content-Length: ${8 * MIB}\r\n\r\n`);
          socket.write(half);
        }
        while (!all.every(({ isClosed }) => isClosed())) {
          most = Math.max(most, (await gatewayMemory()).external - before.external);
          expect(performance.now() - startedAt).toBeLessThan(30_000);
          await new Promise((resolve) => setTimeout(resolve, 100));
        }
        for (const { text } of all) expect(text()).toMatch(/^HTTP\/1.1 401 /);
      });
      expect(most).toBeLessThan(10 * MIB);
    },
  );

  it('of a caller with a key is also closed within 30 s', async () => {
    await abused.withoutLoss(async () => {
      const all = Array.from({ length: 20 }, open);
      for (const { socket } of all) {
        socket.write('POST /api/v1/tools/calculator/execute HTTP/1.1\r\nHost: localhost\r\n');
        socket.write(`Authorization: Bearer ${abused.fleet.keys['globex']!}\r\n`);
        socket.write('Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"arguments"');
      }
      await expect.poll(() => all.every(({ isClosed }) => isClosed())).toBe(true);
    });
  });
});

/** Calls in their usual form are served by an instance of their own; it must not be visible in any answer. */
describe('the path of a call', () => {
  const JSON_TYPE = 'Content-Type: application/json';
  const ACCEPT = 'Accept: application/json, text/event-stream';
  const GOOD = '{"cache":"no-store","arguments":{"expression":"6 * 7"}}';
  const call = (name: string) =>
    JSON.stringify({
      jsonrpc: '2.0',
      id: 7,
      method: 'tools/call',
      params: { name, arguments: { expression: '6 * 7' } },
    });
  const key = () => `Authorization: Bearer ${abused.fleet.keys['globex']!}`;

  /** An answer as it arrived, without what differs from call to call. */
  async function answer(path: string, headers: readonly string[], body: string): Promise<string> {
    const { socket, text, isClosed } = open();
    const head = [`POST ${path} HTTP/1.1`, 'Host: localhost', 'Connection: close', ...headers];
    socket.write([...head, `Content-Length: ${Buffer.byteLength(body)}`, '', body].join('\r\n'));
    await expect.poll(isClosed).toBe(true);
    expect(text()).toMatch(/^connection: close\r$/im);
    return text()
      .replaceAll(/^(date|content-length|x-ratelimit-\S+|retry-after): .*$/gim, '$1')
      .replaceAll(/[\da-f]{8}-[\da-f-]{27}/g, 'id')
      .replaceAll(/"(\w+_ms|\w+_at)":[\d.]+/g, '"$1"');
  }

  const cases: [string, string[], string, RegExp][] = [
    ['a call', [JSON_TYPE], GOOD, /^HTTP\/1.1 200 .*"output":/s],
    ['an asynchronous call', [JSON_TYPE], GOOD.replace('{', '{"mode":"async",'), /^HTTP\/1.1 202 .*location:/is],
    ['wrong arguments', [JSON_TYPE], '{"arguments":{"expression":7,"more":1}}', /^HTTP\/1.1 400 /],
    ['an unknown member', [JSON_TYPE], '{"arguments":{},"argument":1}', /^HTTP\/1.1 400 /],
    ['a body that is not JSON', [JSON_TYPE], '{', /^HTTP\/1.1 400 /],
    ['no body', [], '', /^HTTP\/1.1 400 /],
    ['another type', ['Content-Type: text/plain'], GOOD, /^HTTP\/1.1 400 /],
    ['two keys that differ', [JSON_TYPE, 'X-API-Key: other'], GOOD, /^HTTP\/1.1 40\d /],
  ];
  it.each(cases)('with %s gets the same answer in any form, over HTTP', async (_, headers, body, expected) => {
    const usual = await answer('/api/v1/tools/calculator/execute', [key(), ...headers], body);
    expect(usual).toMatch(expected);
    expect(await answer('/api/v1/tools/calc%75lator/execute', [key(), ...headers], body)).toBe(usual);
  });

  it.each([
    ['a call', call('calculator'), [JSON_TYPE, ACCEPT], /^HTTP\/1.1 200 .*"isError":false/s],
    ['an unknown tool', call('nothing'), [JSON_TYPE, ACCEPT], /-32602/],
    ['a body that is not JSON', '{', [JSON_TYPE, ACCEPT], /^HTTP\/1.1 400 /],
    ['a type that is not accepted', call('calculator'), [JSON_TYPE, 'Accept: text/html'], /^HTTP\/1.1 406 /],
    ['another type', call('calculator'), [ACCEPT], /^HTTP\/1.1 4\d\d /],
    ['another origin', call('calculator'), [JSON_TYPE, ACCEPT, 'Origin: https://example.com'], /^HTTP\/1.1 403 /],
  ])('with %s gets the same answer in any form, over MCP', async (_, body, headers, expected) => {
    await answer('/mcp', [key(), ...headers], body); // later calls are answered from the cache
    const usual = await answer('/mcp', [key(), ...headers], body);
    expect(usual).toMatch(expected);
    expect(await answer('/mcp/', [key(), ...headers], body)).toBe(usual);
  });

  it.each(['/api/v1/tools/calculator/execute', '/mcp'])(
    '%s refuses an unknown key and another method',
    async (path) => {
      const headers = ['Authorization: Bearer unknown', JSON_TYPE, ACCEPT];
      const usual = await answer(path, headers, call('calculator'));
      expect(usual).toMatch(/^HTTP\/1.1 401 .*www-authenticate: Bearer/is);
      const other = path === '/mcp' ? '/mcp/' : path.replace('r/', '%72/');
      expect(await answer(other, headers, call('calculator'))).toBe(usual);
      const refused = await fetch(new URL(path, abused.fleet.url()), { method: 'PUT' });
      expect(refused.status).toBe(405);
      expect(refused.headers.get('allow')).toContain('POST');
    },
  );
});

describe('large messages over NATS', () => {
  it('have at most 16 MB of a tenant at once, and leave nothing counted', async () => {
    const client = await NatsClient.connect({ url: abused.fleet.nats.url, name: 'large' });
    const headers = { [HEADERS.authorization]: `Bearer ${abused.fleet.keys['globex']!}` };
    // Escapes take longest to read.
    const message = { name: 'calculator', arguments: { expression: '"'.repeat(1_900_000) } };
    const send = (): Promise<string> =>
      client.request<CallBody>(SUBJECTS.toolCall, message, { headers, timeoutMs: 60_000 }).then(
        ({ metadata }) => String(metadata.code),
        (error: ToolError) => error.code,
      );
    await abused.withoutLoss(async () => {
      let codes: string[] = [];
      // NATS closes the connection of a gateway that reads nothing for two seconds, as on a busy machine; the messages on it are lost.
      await eventually('every message is answered', async () => {
        codes = await Promise.all(Array.from({ length: 20 }, send));
        return !codes.includes('DEADLINE_EXCEEDED') && !codes.includes('EXECUTOR_UNAVAILABLE');
      });
      expect([...new Set(codes)].toSorted()).toEqual(['ARGUMENTS_INVALID', 'RATE_LIMITED']);
      expect(await send()).toBe('ARGUMENTS_INVALID');
    });
    await client.close();
  });
});

describe('unread event streams', () => {
  const STREAMS = 40;

  it('hold at most 16 MB of a tenant’s results, and are closed', async () => {
    const text = 'word '.repeat(180_000);
    const args = { text, operation: 'case', to: 'upper' };
    const accepted = await abused.attack({
      path: '/api/v1/tools/text_process/execute',
      body: { arguments: args, mode: 'async' },
    });
    expect(accepted.status).toBe(202);
    const path = `/api/v1/calls/${accepted.body.call_id}`;
    await expect.poll(async () => (await abused.attack({ path })).body.status).toBe('succeeded');
    const bytes = (await abused.attack({ path })).text.length;
    const streams = Array.from({ length: STREAMS }, open);
    await abused.withoutLoss(async () => {
      for (const { socket } of streams) {
        socket.pause();
        socket.write(
          `GET ${path}/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${abused.fleet.keys['globex']!}\r\n\r\n`,
        );
      }
      // A paused socket does not see its end: the gateway's own count does.
      const openStreams = async () => {
        const { body } = await abused.fleet.process('gateway').admin('/metrics');
        return Number(/^toolfleet_event_streams (\d+)/m.exec(body)?.[1]);
      };
      await expect.poll(openStreams).toBeGreaterThan(0);
      await expect.poll(openStreams).toBeLessThanOrEqual(Math.floor((16 * MIB) / bytes) + 1);
      if (FULL_LENGTH) await expect.poll(openStreams).toBe(0);
    });
  });
});

describe('an invalid Host header', () => {
  it('gets an answer on every path', async () => {
    await abused.withoutLoss(async () => {
      for (let round = 0; round < scaled(100); round += 1) {
        const all = ['/mcp', '/.well-known/oauth-protected-resource', '/health', '/api/v1/tools'].map((path) => {
          const raw = open();
          raw.socket.write(`GET ${path} HTTP/1.1\r\nHost: localhost:99999\r\n\r\n`);
          return raw;
        });
        await expect.poll(() => all.every(({ text }) => /^HTTP\/1.1 \d{3} /.test(text()))).toBe(true);
      }
    });
  });
});

describe('a body that costs more than it weighs', () => {
  /** The fastest of three, so that a busy machine makes no difference. */
  async function fastest(tool: string, args: object): Promise<number> {
    const times: number[] = [];
    for (let run = 0; run < 3; run += 1) {
      const from = performance.now();
      // A limit of its own makes each call one that no cache can answer.
      const body = { arguments: { ...args, limit: run + 1 } };
      await abused.attack({ path: `/api/v1/tools/${tool}/execute`, body });
      times.push(performance.now() - from);
    }
    return Math.min(...times);
  }
  const varied = Array.from({ length: 10_000 }, (_, index) => index.toString(36).padStart(3, 'z')).join('');

  it.each<[string, string, object, object]>([
    [
      'an unknown name of one character over and over, compared with any other name',
      'calculator',
      { ['a'.repeat(30_000)]: 'a'.repeat(100) },
      { [varied]: 'a'.repeat(100) },
    ],
    [
      'a text of dots, compared with words',
      'text_process',
      { operation: 'count', text: `${'.'.repeat(100_000)}x` },
      { operation: 'count', text: 'word '.repeat(20_000) },
    ],
  ])('%s: other callers do not wait for it', async (_, tool, hostile, harmless) => {
    await abused.withoutLoss(async () => {
      const usual = await fastest(tool, harmless);
      // Quadratic work took a thousand times as long.
      expect(await fastest(tool, hostile)).toBeLessThan(20 * Math.max(usual, 10));
    });
  });
});
