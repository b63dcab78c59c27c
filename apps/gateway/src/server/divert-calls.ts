import type { RequestListener } from 'node:http';
import type { FastifyInstance } from 'fastify';

/** Calls of tools over HTTP and MCP, by their usual paths. */
const CALLS = /^\/(?:mcp|api\/v1\/tools\/[\w.-]{1,200}\/execute)(?:\?|$)/;

/**
 * Serves the paths of calls by an instance of their own. For each request of the other, Nest and its middleware run a dozen hooks, of which calls
 * need none. Both share the server, its limits and its connections; requests in an unusual form are the other's, which serves the same routes.
 */
export async function divertCalls(calls: FastifyInstance): Promise<void> {
  await calls.ready();
  const { server } = calls;
  const [serveOthers] = server.listeners('request') as [RequestListener];
  server.off('request', serveOthers).on('request', (request, response) => {
    if (request.method === 'POST' && CALLS.test(request.url!)) calls.routing(request, response);
    else serveOthers(request, response);
  });
}
