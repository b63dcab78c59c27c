/** A function endpoint that is overloaded or failing opens the breaker of its base URL; one that rejects arguments does not. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { TestFleet } from '../fleet/test-fleet.js';

const FAILURES = 3;
const servers: Server[] = [];
const hits: Record<string, number> = {};
let fleet: TestFleet;

/** A server that answers every request with one status, and counts them. */
async function answering(status: number): Promise<string> {
  const server = createServer((request, response) => {
    hits[status] = (hits[status] ?? 0) + 1;
    request.resume().on('end', () => response.writeHead(status, { 'retry-after': '0' }).end('no'));
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

beforeAll(async () => {
  const origins = Object.fromEntries(
    await Promise.all([429, 503, 422].map(async (status) => [status, await answering(status)] as const)),
  ) as Record<number, string>;
  const tool = (status: number) => ({ url: `${origins[status]}/call`, func_name: 'f', parameters: [] });
  fleet = await TestFleet.start({
    together: true,
    services: { gateway: 1, registry: 1, budget: 1, 'mcp-executor': 1 },
    tools: ['busy', 'broken', 'strict'],
    config: { mcp_tools: { busy: tool(429), broken: tool(503), strict: tool(422) } },
    env: { EGRESS_ALLOWED_ENDPOINTS: Object.values(origins).join(','), MCP_CB_FAILURES: String(FAILURES) },
  });
});
afterAll(async () => {
  await fleet?.stop();
  for (const server of servers) server.close();
});

async function codes(tool: string, calls: number): Promise<string[]> {
  const found: string[] = [];
  for (let call = 0; call < calls; call += 1) {
    const { body } = await fleet.call(tool, {});
    found.push(body.code ?? body.metadata.code);
  }
  return found;
}

it.each([
  ['busy', 429, 'UPSTREAM_ERROR'],
  ['broken', 503, 'OUTCOME_UNKNOWN'], // the request had been delivered
])('%s: answers of %i count, and the open breaker stops further requests', async (tool, status, code) => {
  const found = await codes(tool, FAILURES + 2);
  expect(found.slice(0, FAILURES)).toEqual(Array(FAILURES).fill(code));
  expect(found.slice(FAILURES)).toEqual(['BREAKER_OPEN', 'BREAKER_OPEN']);
  expect(hits[status]).toBe(FAILURES);
});

it('strict: answers of 422 never count', async () => {
  expect(await codes('strict', FAILURES + 2)).toEqual(Array(FAILURES + 2).fill('UPSTREAM_ERROR'));
  expect(hits[422]).toBe(FAILURES + 2);
});
