/** The server under the conformance suite, without a fleet. Prints its port as JSON and ends with its parent. */
import { randomBytes } from 'node:crypto';
import Fastify from 'fastify';
import { SystemClock } from '@toolfleet/resilience';
import { acceptJsonBodies } from '../../apps/gateway/dist/server/request-body.js';
import { ConformanceEndpoint } from './conformance-endpoint.mjs';

const principal = { tenantId: 't', userId: 'conformance', roles: [], tools: ['*'], via: 'local' };
const MAX_BODY_BYTES = 4 * 1024 * 1024;
const fastify = Fastify({ forceCloseConnections: true });
acceptJsonBodies(fastify, MAX_BODY_BYTES, new SystemClock());
const endpoint = new ConformanceEndpoint(
  {
    authenticate: async () => principal,
    searchTools: async () => [],
    requestState: { seal: () => randomBytes(16).toString('hex'), open: () => null },
    clock: new SystemClock(),
    onFault: process.env.MCP_DEBUG ? (error) => console.error(error) : undefined,
  },
  { version: '0.1.0', maxCallMs: 120_000, listTtlMs: 300_000, maxBodyBytes: MAX_BODY_BYTES },
);
await endpoint.mount(fastify);
await fastify.listen({ port: Number(process.argv[2] ?? 0), host: '127.0.0.1' });
console.log(JSON.stringify({ port: fastify.server.address().port }));
process.on('disconnect', () => process.exit(0));
process.on('SIGTERM', () => process.exit(0));
