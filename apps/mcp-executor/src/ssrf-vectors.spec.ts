/** The SSRF vectors through every path of mcp-executor: discovery, a call, and a plain function endpoint. */
import { createServer } from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';
import type { ExecMessage } from '@toolfleet/contracts/execution';
import type { McpBinding } from '@toolfleet/contracts/tool-definition';
import { Dialer, EgressClient, Resolver, type DialTarget } from '@toolfleet/egress';
import { BreakerMap, SystemClock } from '@toolfleet/resilience';
import { readSsrfVectors, type SsrfVector } from '@toolfleet/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { McpExecutor } from './mcp-executor.js';
import { POOL_LIMITS, SessionPool } from './session-pool.js';

const INTERNET = new Set(['93.184.216.34', '2606:2800:220:1:248:1893:25c8:1946']);

let hits = { allowed: 0, forbidden: 0 };
let location: string | undefined;
const allowed = createServer((_request, response) => {
  hits.allowed += 1;
  if (location) return response.writeHead(302, { location }).end();
  return response.writeHead(200, { 'content-type': 'application/json' }).end('{"ok":true}');
});
const forbidden = createServer((_request, response) => {
  hits.forbidden += 1;
  response.end('{}');
});
const portOf = (server: typeof allowed) => (server.address() as AddressInfo).port;

class RowResolver extends Resolver {
  asked = 0;
  constructor(private readonly row: SsrfVector) {
    super();
  }
  override async resolve(): Promise<string[]> {
    this.asked += 1;
    const first = this.row.resolve ?? ['93.184.216.34'];
    return this.asked === 1 ? first : (this.row.resolve_second ?? first);
  }
}
class Loopback extends Dialer {
  override dial({ address }: DialTarget): Promise<Socket> {
    return new Promise((done, fail) => {
      const socket = connect(portOf(INTERNET.has(address) ? allowed : forbidden), '127.0.0.1', () => done(socket)).once(
        'error',
        fail,
      );
    });
  }
}

beforeAll(async () => {
  for (const server of [allowed, forbidden]) await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
});
afterAll(() => {
  for (const server of [allowed, forbidden]) {
    server.closeAllConnections();
    server.close();
  }
});

async function attempt(row: SsrfVector, way: 'call' | 'function' | 'discover') {
  hits = { allowed: 0, forbidden: 0 };
  location = row.location;
  const clock = new SystemClock();
  const resolver = new RowResolver(row);
  const egress = new EgressClient({
    allowlist: ['api.example.com', '*.partner.example'],
    schemes: ['https', 'http'],
    resolver,
    dialer: new Loopback(),
    limits: { dnsCacheMs: row.resolve_second ? 0 : 300_000 },
  });
  const parts = { egress, clock, expand: (value: string) => value, maxResponseBytes: 100_000 };
  const pool = new SessionPool({ ...parts, allowStdio: false, version: '0' }, undefined, POOL_LIMITS);
  const breakers = new BreakerMap({ consecutiveFailures: 50, recoveryMs: 1_000 }, clock);
  const executor = new McpExecutor(pool, breakers, parts, clock, {});
  const signal = new AbortController().signal;
  const binding: McpBinding = {
    kind: 'mcp',
    server: 's',
    transport: way === 'function' ? 'function-args' : 'streamable-http',
    url: row.url,
    remoteName: 'f',
  };
  const message: ExecMessage = {
    call_id: 'c',
    attempt: 1,
    fence: 1,
    journalled: false,
    tool: 't',
    revision: row.id,
    binding,
    arguments: {},
    context: { tenant_id: 't' },
  };
  const outcome = await (
    way === 'discover'
      ? executor.discover({ server: 's', url: row.url }, { timeoutMs: 5_000, signal })
      : executor.execute(message, { remainingMs: 5_000, signal })
  ).then(
    (reply) => ('failure' in reply ? reply.failure?.code : 'ok'),
    (error: { code?: string }) => error.code,
  );
  await pool.close();
  breakers.dispose();
  await egress.close();
  return { outcome, asked: resolver.asked, ...hits };
}

describe('SSRF vectors through mcp-executor', () => {
  it.each(readSsrfVectors().map((row) => [row.id, row.why, row] as const))('%s %s', async (_id, _why, row) => {
    for (const way of ['call', 'function', 'discover'] as const) {
      const { outcome, asked, ...seen } = await attempt(row, way);
      expect([way, seen.forbidden]).toEqual([way, 0]);
      if (row.expect === 'allow') {
        expect([way, seen.allowed > 0]).toEqual([way, true]);
        continue;
      }
      if (row.layer === 'url') expect([way, outcome, asked, seen.allowed]).toEqual([way, 'EGRESS_REFUSED', 0, 0]);
      if (row.layer === 'connect' && !row.resolve_second)
        expect([way, outcome, seen.allowed]).toEqual([way, 'EGRESS_REFUSED', 0]);
      // Redirects of a POST are not followed, so only the first hop was requested.
      if (row.layer === 'redirect') expect(outcome).not.toBe('ok');
    }
  });
});
