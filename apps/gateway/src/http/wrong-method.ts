import { ToolError } from '@toolfleet/contracts';
import type { FastifyInstance } from 'fastify';
import { sendError } from './error.filter.js';

/**
 * Answers 405 with `Allow` (RFC 9110 section 15.5.6) where a path exists and only the method does not; without it the router
 * says 404, and whoever sent GET instead of POST looks for the fault in the path. Install it before routes are added.
 */
export function answerWrongMethods(fastify: FastifyInstance): void {
  const methods = new Map<string, Set<string>>();
  fastify.addHook('onRoute', ({ url, method }) => {
    const known = methods.get(url) ?? new Set<string>();
    methods.set(url, known);
    for (const one of [method].flat()) known.add(one);
  });
  fastify.addHook('onRequest', async (request, reply) => {
    if (!request.is404) return;
    const path = request.url.split('?', 1)[0]!;
    const allowed = [...methods].flatMap(([pattern, known]) => (matches(pattern, path) ? [...known] : []));
    if (allowed.length === 0) return;
    const allow = [...new Set(allowed)].toSorted();
    void reply.header('Allow', allow.join(', '));
    const message = `${request.method} is not a method of ${path}: use ${allow.join(' or ')}`;
    sendError(reply, request.url, new ToolError('METHOD_NOT_ALLOWED', { message, details: { allow } }));
    return reply;
  });
}

/** Whether a path is one of a route pattern: `:name` stands for one part, a `*` at the end for all that follow. */
function matches(pattern: string, path: string): boolean {
  const wanted = pattern.split('/');
  const parts = path.split('/');
  if (wanted.at(-1) === '*') return wanted.slice(0, -1).every((part, index) => fits(part, parts[index]));
  return wanted.length === parts.length && wanted.every((part, index) => fits(part, parts[index]));
}

const fits = (wanted: string, part: string | undefined): boolean =>
  wanted.startsWith(':') ? part !== undefined && part !== '' : wanted === part;
