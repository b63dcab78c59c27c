import { createServer } from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { isCodedError } from '@toolfleet/base';
import { readSsrfVectors, type SsrfVector } from '@toolfleet/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { OWN_VECTORS } from '../spec/own-vectors.js';
import { Dialer, type DialTarget } from './connector.js';
import { EgressClient } from './egress-client.js';
import { Resolver } from './resolver.js';

/** The only public addresses; a connection to any other address is a forbidden hit. */
const INTERNET = new Set(['93.184.216.34', '2606:2800:220:1:248:1893:25c8:1946']);

let allowedPort = 0;
let forbiddenPort = 0;
let location: string | undefined;
let allowedHits = 0;
let forbiddenHits = 0;
const servers = [
  createServer((request, response) => {
    allowedHits += 1;
    if (location && (request.url === '/redirect' || location === '/loop')) {
      return response.writeHead(302, { location }).end();
    }
    return response.end('fine');
  }),
  createServer((_, response) => {
    forbiddenHits += 1;
    response.end('secret');
  }),
];

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
  override dial(target: DialTarget): Promise<Socket> {
    const port = INTERNET.has(target.address) ? allowedPort : forbiddenPort;
    return new Promise((done, fail) => {
      const socket = connect(port, '127.0.0.1', () => done(socket)).once('error', fail);
    });
  }
}

beforeAll(async () => {
  for (const server of servers) await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  [allowedPort = 0, forbiddenPort = 0] = servers.map((server) => (server.address() as AddressInfo).port);
});
afterAll(() => {
  for (const server of servers) {
    server.closeAllConnections();
    server.close();
  }
});

async function run(row: SsrfVector) {
  const resolver = new RowResolver(row);
  [allowedHits, forbiddenHits, location] = [0, 0, row.location];
  const client = new EgressClient({
    allowlist: ['api.example.com', '*.partner.example'],
    schemes: ['https', 'http'],
    resolver,
    dialer: new Loopback(),
    limits: { dnsCacheMs: row.resolve_second ? 0 : 300_000 },
  });
  const attempt = () =>
    client.request({ url: row.url }).then(
      async (response) => `${response.status} ${await response.body.text()}`,
      (error: unknown) => (isCodedError(error) && error.code === 'EGRESS_REFUSED' ? error.details : error),
    );
  const outcome = await attempt();
  await client.close();
  return { outcome, asked: resolver.asked };
}

describe.each([
  ['general', readSsrfVectors()],
  ['further', OWN_VECTORS],
])('%s SSRF vectors', (_name, rows) => {
  it.each(rows.map((row) => [row.id, row.why, row] as const))('%s %s', async (_id, _why, row) => {
    const { outcome, asked } = await run(row);
    expect(forbiddenHits).toBe(0);
    if (row.expect === 'allow') return expect(outcome).toBe('200 fine');
    if (row.resolve_second) {
      // The checked address is pinned and the rebound one is never dialed, so the request may succeed.
      return expect(asked).toBe(1);
    }
    expect(outcome).toMatchObject({ layer: row.layer });
    if (row.layer === 'url') expect([asked, allowedHits]).toEqual([0, 0]);
    if (row.layer === 'connect') expect(allowedHits).toBe(0);
    return undefined;
  });
});

describe('DNS rebinding', () => {
  it('is refused at the next dial after a public first answer', async () => {
    [allowedHits, forbiddenHits, location] = [0, 0, undefined];
    const row: SsrfVector = {
      id: 'rebind',
      cls: 'dns',
      url: 'https://rebind.partner.example/',
      expect: 'block',
      layer: 'connect',
      why: '',
      resolve: ['93.184.216.34'],
      resolve_second: ['127.0.0.1'],
    };
    const client = new EgressClient({
      allowlist: ['*.partner.example'],
      resolver: new RowResolver(row),
      dialer: new Loopback(),
      limits: { dnsCacheMs: 0, keepAliveMs: 1 },
    });
    const first = await client.request({ url: row.url });
    expect(await first.body.text()).toBe('fine');
    // The kept-alive connection still leads to the checked address; a new one resolves again.
    await expect.poll(() => client.openConnections).toBe(0);
    await expect(client.request({ url: row.url })).rejects.toMatchObject({ details: { layer: 'connect' } });
    expect([allowedHits, forbiddenHits]).toEqual([1, 0]);
    await client.close();
  });
});
