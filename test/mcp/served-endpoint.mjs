/** Endpoints without a fleet, for the servers of this folder. */
import Fastify from 'fastify';
import { McpEndpoint } from '../../apps/gateway/dist/mcp/mcp-endpoint.js';
import { BodyReader } from '../../apps/gateway/dist/server/body-reader.js';
import { acceptJsonBodies } from '../../apps/gateway/dist/server/request-body.js';

/** Serves an endpoint as the gateway does. Resolves with its port, by default a free one. */
export async function serve(endpoint, { clock, maxBodyBytes, port = 0 }) {
  const fastify = Fastify({ forceCloseConnections: true });
  acceptJsonBodies(fastify, maxBodyBytes, new BodyReader(clock));
  await endpoint.mount(fastify);
  await fastify.listen({ port, host: '127.0.0.1' });
  return fastify.server.address().port;
}

/** What an endpoint needs of a fleet besides its tools, where nothing happens. */
export const IDLE = {
  toolsetInstructions: async () => undefined,
  endCall: () => undefined,
  watchGrant: () => ({ stop: () => undefined }),
  refusalOf: async () => undefined,
  onFault: () => undefined,
  countCalls: async () => undefined,
  selectToolset: (principal) => principal,
  onCatalogChanged: () => () => undefined,
  cancellations: { track: () => () => undefined, cancel: () => undefined },
  projects: { choose: () => ({}) },
  streams: { enter: () => () => undefined },
  metrics: { durations: { observe: () => undefined }, toolLabel: () => 'other' },
};

const DONE = {
  ok: true,
  output: null,
  provenance: 'live',
  usage: { tokens: 0, microUsd: 0 },
  metadata: {},
  timing: {},
  attempts: 1,
};

/**
 * Serves tools that answer with their argument `text`.
 * @param tools the members in which they differ; `name` at least
 * @param called called with each call
 */
export function serveEcho(tools, clock, called = () => undefined) {
  const limits = { maxBodyBytes: 1_000_000 };
  const principal = { tenantId: 't', userId: 'u', roles: [], tools: ['*'], via: 'local' };
  const definitions = tools.map((tool) => ({
    description: 'A tool',
    version: '1.0.0',
    category: 'echo',
    input_schema: { type: 'object', properties: { text: { type: 'string' } } },
    binding: { kind: 'builtin', toolset: 'compute', handler: tool.name },
    source: { kind: 'builtin', name: 'echo' },
    revision: '1',
    available: true,
    ...tool,
  }));
  const endpoint = new McpEndpoint(
    {
      ...IDLE,
      authenticate: async () => principal,
      listTools: async () => definitions,
      executeCall: async (request) => {
        called(request);
        return { ...DONE, text: String(request.input.rawArguments.text) };
      },
      searchTools: async () => [],
      requestState: { seal: () => '', open: () => null },
      clock,
    },
    {
      version: '1',
      maxCallMs: 10_000,
      listTtlMs: 300_000,
      surface: 'list',
      searchAbove: 500,
      inlineBytes: Infinity,
      ...limits,
    },
  );
  return serve(endpoint, { clock, ...limits });
}
