/**
 * The gateway's MCP door with the fixtures of the conformance suite and no fleet behind it. Prints its port as JSON and
 * ends with its parent. Tests only.
 */
import { randomBytes } from 'node:crypto';
import Fastify from 'fastify';
import { SystemClock } from '@toolfleet/resilience';
import { conformanceFixtures } from '../../apps/gateway/dist/mcp/conformance/fixture-pack.js';
import { mountMcpDoor } from '../../apps/gateway/dist/mcp/mcp-endpoint.js';

const principal = { tenantId: 't', userId: 'conformance', roles: [], tools: ['*'], via: 'local' };
const clock = new SystemClock();
const none = [];
const fastify = Fastify({ forceCloseConnections: true });
await mountMcpDoor(
  fastify,
  {
    authenticate: async () => principal,
    listTools: async () => none,
    executeCall: async () => {
      throw new Error('the fixtures need no engine');
    },
    searchTools: async () => none,
    requestState: { seal: () => randomBytes(16).toString('hex'), open: () => null },
    clock,
    onFault: process.env.MCP_DEBUG ? (error) => console.error(error) : undefined,
  },
  {
    version: '0.1.0',
    maxCallMs: 120_000,
    listTtlMs: 300_000,
    maxBodyBytes: 4 * 1024 * 1024,
    extras: conformanceFixtures(clock),
  },
);
await fastify.listen({ port: Number(process.argv[2] ?? 0), host: '127.0.0.1' });
console.log(JSON.stringify({ port: fastify.server.address().port }));
process.on('disconnect', () => process.exit(0));
process.on('SIGTERM', () => process.exit(0));
