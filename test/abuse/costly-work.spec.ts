/**
 * Small requests of one tenant that cost far more time or memory than they weigh. The gateway has a small heap, and another
 * tenant is answered about as fast as before.
 */
import { createServer, type Server } from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { AbusedFleet, FULL_LENGTH, scaled } from './abused-fleet.js';

const HEAP_MB = 512;
const NONE = { type: 'object', properties: {} };

const many = <T>(count: number, make: (index: number) => T): T[] =>
  Array.from({ length: count }, (_, index) => make(index));
const names = (count: number): string[] => many(count, (index) => `name${index}`);

/** Tools of a hostile MCP server: schemas, and the results of `give` and `large`. */
const TOOLS = [
  {
    name: 'large',
    description: 'Gives a large text.',
    inputSchema: { type: 'object', properties: { salt: { type: 'integer' } } },
    annotations: { readOnlyHint: true },
  },
  {
    name: 'give',
    description: 'Gives many objects.',
    inputSchema: NONE,
    outputSchema: {
      type: 'object',
      properties: { items: { type: 'array', items: { type: 'object', required: names(4_000) } } },
    },
    annotations: { readOnlyHint: true },
  },
  {
    name: 'take',
    description: 'Takes a list.',
    inputSchema: {
      type: 'object',
      properties: { list: { $ref: '#/$defs/list' }, salt: { type: 'integer' } },
      $defs: { list: { uniqueItems: true, items: { $ref: '#/$defs/list' } } },
    },
    annotations: { readOnlyHint: true },
  },
];

/** Serves these tools by the MCP protocol, as far as a fleet uses it. */
async function startHostileServer(): Promise<Server> {
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk) => (body += String(chunk)));
    request.on('end', () => {
      if (request.method !== 'POST') return void response.writeHead(405).end();
      const { id, method, params } = JSON.parse(body) as { id?: number; method: string; params?: { name?: string } };
      if (id === undefined) return void response.writeHead(202).end();
      const results: Record<string, unknown> = {
        initialize: {
          protocolVersion: '2025-06-18',
          capabilities: { tools: {} },
          serverInfo: { name: 'hostile', version: '1' },
        },
        'tools/list': { tools: TOOLS },
        'tools/call':
          params?.name === 'large'
            ? { content: [{ type: 'text', text: 'x'.repeat(2_400_000) }] }
            : { content: [], structuredContent: { items: many(9_000, () => ({})) } },
      };
      const result = results[method];
      const answer = result === undefined ? { error: { code: -32601, message: 'none' } } : { result };
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ jsonrpc: '2.0', id, ...answer }));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return server;
}

let abused: AbusedFleet;
let server: Server;
beforeAll(async () => {
  server = await startHostileServer();
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
  abused = await AbusedFleet.start({
    services: { gateway: 1, registry: 1, budget: 1, 'builtin-executor': 1, 'mcp-executor': 1 },
    config: { mcp_servers: { hostile: { url, trusted: true } } },
    tools: ['calculator', 'text_process', 'hostile_give', 'hostile_large', 'hostile_take'],
    env: { BUILTIN_TOOLSETS: 'compute', EGRESS_ALLOWED_ENDPOINTS: new URL(url).origin },
    envOf: { gateway: { NODE_OPTIONS: `--max-old-space-size=${HEAP_MB}` } },
  });
});
afterAll(async () => {
  await abused?.stop();
  server?.closeAllConnections();
  server?.close();
});

/** Runs an attack; the victim is answered about as fast as before, and the gateway stays within a pod of 1 GiB. */
async function fair(attack: string, run: () => Promise<unknown>): Promise<void> {
  const harm = await abused.measured(attack, run);
  expect(harm.p99Ms).toBeLessThanOrEqual(harm.maxP99Ms);
  expect(harm.memoryMb.gateway).toBeLessThan(1_024);
}

const execute = (tool: string) => `/api/v1/tools/${tool}/execute`;

describe('requests that cost more than they weigh', () => {
  it('an output schema with 4,000 required names against 9,000 objects', async () => {
    await fair('required names', async () => {
      for (let round = 0; round < scaled(40); round += 1) {
        const { status, body } = await abused.attack({ path: execute('hostile_give'), body: { arguments: {} } });
        expect(status).toBe(200);
        expect(body.metadata.output_schema_mismatch.length).toBeGreaterThan(0);
      }
    });
  });

  it('arguments that take long to validate', async () => {
    const list = many(100, () => 0).reduce<unknown>(
      (inner) => [inner],
      many(10_000, (index) => index),
    );
    await fair('costly validation', async () => {
      for (let round = 0; round < scaled(40); round += 1) {
        const body = { arguments: { list, salt: round } };
        const { status } = await abused.attack({ path: execute('hostile_take'), body });
        expect([200, 400, 429, 503]).toContain(status);
      }
    });
  });

  it('60 invalid selections in one batch', async () => {
    await fair('invalid selections', async () => {
      for (let round = 0; round < scaled(40); round += 1) {
        const calls = many(60, (index) => ({
          name: 'calculator',
          arguments: { expression: '1' },
          select: `{${'a:b,'.repeat(240)}${round}${index}`,
        }));
        const { status } = await abused.attack({ path: '/api/v1/tools/batch-execute', body: { calls } });
        expect(status).toBe(200);
      }
    });
  });

  it('20 slow selections of large results, and the victim selects as well', async () => {
    const text = 'word '.repeat(100_000);
    let count = 0;
    const select = (key: string, args: object, expression: string) =>
      abused.fleet.call('text_process', args, { key, fields: { select: expression } });
    const slow = async () => {
      const args = { text: `${(count += 1)} ${text}`, operation: 'split', separator: ' ' };
      const { status } = await select(abused.fleet.keys['globex']!, args, '$..[?count($..[?@ == 1]) > 5]');
      expect([200, 400, 422, 429, 500, 502, 503, 504]).toContain(status);
    };
    const harm = await abused.measured(
      'slow selections',
      async () => {
        for (let round = 0; round < scaled(20); round += 1) await Promise.all(many(20, slow));
      },
      {
        tool: 'text_process',
        arguments: { text: 'victim %n', operation: 'case', to: 'upper' },
        fields: { select: '$.*' },
        expected: 'VICTIM %n',
      },
    );
    expect(harm.p99Ms).toBeLessThanOrEqual(harm.maxP99Ms);
  });

  it.each<[string, () => object, number]>([
    ['names', () => Object.fromEntries(many(400_000, (index) => [`argument_${index}`, index])), 413],
    ['numbers', () => ({ text: many(1_000_000, (index) => index % 10) }), 413],
    ['different names', () => Object.fromEntries(many(24_000, (index) => [`argument_${index}`, index])), 413],
    [
      'names, but within the limit',
      () => Object.fromEntries(many(4_900, (index) => [`argument_${index}`, index])),
      400,
    ],
    [
      'names in a text',
      () => ({ args: JSON.stringify(Object.fromEntries(many(300_000, (index) => [`argument_${index}`, index]))) }),
      400,
    ],
    ['escaped quotes', () => ({ expression: '"'.repeat(3_900_000) }), 400],
  ])('bodies of many %s', async (what, make, expected) => {
    // Written once: this process also measures the victim.
    const body = Buffer.from(JSON.stringify({ arguments: make() }));
    const send = async () => {
      const headers = { authorization: `Bearer ${abused.fleet.keys['globex']!}`, 'content-type': 'application/json' };
      const { status } = await fetch(abused.fleet.url() + execute('calculator'), { method: 'POST', headers, body });
      return status;
    };
    await fair(`bodies of ${what}`, async () => {
      for (let round = 0; round < scaled(20); round += 1) {
        for (const status of await Promise.all(many(6, send))) expect([expected, 429, 503]).toContain(status);
      }
    });
  });
});

describe.runIf(FULL_LENGTH)('150 calls at once whose results have megabytes', () => {
  it('make no call of another tenant fail, once their size is known', async () => {
    const path = execute('hostile_large');
    expect((await abused.attack({ path, body: { arguments: { salt: -1 } } })).text.length).toBeGreaterThan(4_000_000);
    const { port, hostname } = new URL(abused.fleet.url());
    const request = (salt: number): string => {
      const body = JSON.stringify({ arguments: { salt } });
      const head = `POST ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${abused.fleet.keys['globex']!}\r\n`;
      return `${head}Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
    };
    // Not read: this process also measures the victim.
    await abused.withoutLoss(async () => {
      const sockets = many(150, () => connect(Number(port), hostname).on('error', () => undefined));
      for (const [salt, socket] of sockets.entries()) socket.pause().write(request(salt));
      await new Promise((resolve) => setTimeout(resolve, 15_000));
      for (const socket of sockets) socket.destroy();
    });
  });
});

describe('responses that a client does not read', () => {
  /** An asynchronous call with a result of 2.9 MB; its path. */
  async function keepResult(): Promise<string> {
    const args = { text: 'word '.repeat(200_000), operation: 'case', to: 'upper' };
    const accepted = await abused.attack({ path: execute('text_process'), body: { arguments: args, mode: 'async' } });
    const path = `/api/v1/calls/${accepted.body.call_id}`;
    await expect.poll(async () => (await abused.attack({ path })).body.status).toBe('succeeded');
    return path;
  }

  it.each([
    ['on 55 connections', 55, 1],
    ['pipelined on one connection', 1, 30],
    ['pipelined on 55 connections', 55, 30],
  ])('%s', async (how, connections, requests) => {
    const path = await keepResult();
    const { port, hostname } = new URL(abused.fleet.url());
    const request = `GET ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${abused.fleet.keys['globex']!}\r\n\r\n`;
    await fair(`unread responses ${how}`, async () => {
      const sockets: Socket[] = many(connections, () => connect(Number(port), hostname).on('error', () => undefined));
      for (const socket of sockets) socket.pause().write(request.repeat(requests));
      await new Promise((resolve) => setTimeout(resolve, scaled(10_000) + 4_000));
      for (const socket of sockets) socket.destroy();
    });
  });
});
