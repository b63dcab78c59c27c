import { createServer } from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { isToolError } from '@toolfleet/contracts';
import type { ExecMessage } from '@toolfleet/contracts/execution';
import { Dialer, EgressClient, Resolver, type DialTarget } from '@toolfleet/egress';
import { convertDocument, parseSpec, planJson } from '@toolfleet/openapi';
import { BreakerMap, SystemClock } from '@toolfleet/resilience';
import { readSsrfVectors, type SsrfVector } from '@toolfleet/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Credentials } from './credentials.js';
import { OAuthTokens } from './oauth-tokens.js';
import { OpenApiExecutor } from './openapi-executor.js';
import { VendorAdapters } from './vendor-adapters/find-adapter.js';

/** Only these two stand for the internet; every other address that is dialled is a forbidden hit. */
const INTERNET = new Set(['93.184.216.34', '2606:2800:220:1:248:1893:25c8:1946']);

describe('SSRF vectors as servers of a document', () => {
  let row: SsrfVector;
  let forbidden = 0;
  const upstream = createServer((request, response) => {
    const isRedirect = row.location !== undefined && (row.location === '/loop' || request.url?.startsWith('/redirect'));
    if (isRedirect) return void response.writeHead(302, { location: row.location }).end();
    response.end('fine');
  });
  const trap = createServer((_, response) => {
    forbidden += 1;
    response.end('secret');
  });

  class RowResolver extends Resolver {
    asked = 0;
    override async resolve(): Promise<string[]> {
      this.asked += 1;
      const first = row.resolve ?? ['93.184.216.34'];
      return this.asked === 1 ? first : (row.resolve_second ?? first);
    }
  }
  class Loopback extends Dialer {
    override dial(target: DialTarget): Promise<Socket> {
      const { port } = (INTERNET.has(target.address) ? upstream : trap).address() as AddressInfo;
      return new Promise((done, fail) => {
        const socket = connect(port, '127.0.0.1', () => done(socket)).once('error', fail);
      });
    }
  }

  beforeAll(async () => {
    for (const server of [upstream, trap]) await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  });
  afterAll(() => {
    for (const server of [upstream, trap]) {
      server.closeAllConnections();
      server.close();
    }
  });

  it.each(readSsrfVectors().map((item) => [item.id, item.why, item] as const))('%s %s', async (_id, _why, item) => {
    row = item;
    forbidden = 0;
    const resolver = new RowResolver();
    const egress = new EgressClient({
      allowlist: ['api.example.com', '*.partner.example'],
      schemes: ['https', 'http'],
      resolver,
      dialer: new Loopback(),
      limits: { dnsCacheMs: item.resolve_second ? 0 : 300_000 },
    });
    const outcome = await call(egress, item.url);
    await egress.close();
    expect(forbidden).toBe(0);
    if (item.expect === 'allow') expect(outcome).toBe('200');
    else if (!item.resolve_second) expect(outcome).toBe('EGRESS_REFUSED');
    if (item.expect === 'block' && item.layer === 'url') expect(resolver.asked).toBe(0);
  });

  async function call(egress: EgressClient, url: string): Promise<string> {
    const clock = new SystemClock();
    const document = { openapi: '3.1.0', servers: [{ url }], paths: { '/': { get: { operationId: 'probe' } } } };
    const tool = convertDocument(parseSpec(JSON.stringify(document))).tools[0]!;
    const message: ExecMessage = {
      call_id: 'c',
      attempt: 1,
      fence: 1,
      journalled: false,
      tool: 'probe',
      revision: '1',
      binding: {
        kind: 'openapi',
        collection: 'ssrf',
        baseUrl: tool.baseUrl() ?? '',
        operationId: 'probe',
        method: 'GET',
        path: '/',
        plan: planJson(tool.plan()),
      },
      arguments: {},
      context: { tenant_id: 't' },
    };
    const executor = new OpenApiExecutor(
      {
        egress,
        credentials: new Credentials((value) => value, new OAuthTokens(egress, clock)),
        clock,
      },
      new BreakerMap({ consecutiveFailures: 5, recoveryMs: 60_000 }, clock),
      new VendorAdapters({} as never),
    );
    try {
      const reply = await executor.execute(message, {
        remainingMs: 5_000,
        signal: AbortSignal.timeout(5_000),
        begin: async () => undefined,
      });
      return reply.ok ? String(reply.metadata.http_status) : String(reply.failure?.code);
    } catch (error) {
      return isToolError(error) ? error.code : String(error);
    }
  }
});
