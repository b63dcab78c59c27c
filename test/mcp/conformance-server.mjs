/** The server under the conformance suite, without a fleet. Prints its port as JSON and ends with its parent. */
import { randomBytes } from 'node:crypto';
import { SystemClock } from '@toolfleet/resilience';
import { ConformanceEndpoint } from './conformance-endpoint.mjs';
import { IDLE, serve } from './served-endpoint.mjs';

const principal = { tenantId: 't', userId: 'conformance', roles: [], tools: ['*'], via: 'local' };
const MAX_BODY_BYTES = 4 * 1024 * 1024;
const clock = new SystemClock();
const endpoint = new ConformanceEndpoint(
  {
    ...IDLE,
    authenticate: async () => principal,
    searchTools: async () => [],
    requestState: { seal: () => randomBytes(16).toString('hex'), open: () => null },
    clock,
    ...(process.env.MCP_DEBUG && { onFault: (error) => console.error(error) }),
  },
  {
    version: '0.1.0',
    maxCallMs: 120_000,
    listTtlMs: 300_000,
    surface: 'list',
    searchAbove: 500,
    inlineBytes: Infinity,
    maxBodyBytes: MAX_BODY_BYTES,
  },
);
const port = await serve(endpoint, { clock, maxBodyBytes: MAX_BODY_BYTES, port: Number(process.argv[2] ?? 0) });
console.log(JSON.stringify({ port }));
process.on('disconnect', () => process.exit(0));
process.on('SIGTERM', () => process.exit(0));
