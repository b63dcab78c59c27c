import type { IncomingMessage } from 'node:http';
import { ToolError, type Principal } from '@toolfleet/contracts';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Clock } from '@toolfleet/resilience';
import { sendError, toRequestError } from './error.filter.js';
import type { GuardedRequest } from './guards.js';
import { carriesBody, leaveUnread } from './request-body.js';

/**
 * Answers 405 with `Allow` (RFC 9110 section 15.5.6) if a path exists but not for this method; the router would answer 404.
 * Install it before routes are added.
 */
export function answerWrongMethods(fastify: FastifyInstance): void {
  const methods = new Map<string, Set<string>>();
  fastify.addHook('onRoute', ({ url, method }) => {
    const known = methods.get(url) ?? new Set<string>();
    methods.set(url, known);
    for (const one of [method].flat()) known.add(one);
  });
  fastify.addHook('onRequest', (request, reply, done) => {
    if (!request.is404) return done();
    const path = request.url.split('?', 1)[0]!;
    const allowed = [...methods].flatMap(([pattern, known]) => (matches(pattern, path) ? [...known] : []));
    if (allowed.length === 0) return done();
    const allow = [...new Set(allowed)].toSorted();
    void reply.header('Allow', allow.join(', '));
    // An MCP client that was given the URL of the gateway alone.
    const hint = path === '/' ? '; MCP is served at /mcp, the API below /api/v1' : '';
    const message = `${request.method} is not a method of ${path}: use ${allow.join(' or ')}${hint}`;
    sendError(reply, request.url, new ToolError('METHOD_NOT_ALLOWED', { message, details: { allow } }));
  });
}

/** Whether a path matches a route pattern: `:name` matches one segment, a trailing `*` all that follow. */
function matches(pattern: string, path: string): boolean {
  const wanted = pattern.split('/');
  const parts = path.split('/');
  if (wanted.at(-1) === '*') return wanted.slice(0, -1).every((part, index) => fits(part, parts[index]));
  return wanted.length === parts.length && wanted.every((part, index) => fits(part, parts[index]));
}

const fits = (wanted: string, part: string | undefined): boolean =>
  wanted.startsWith(':') ? part !== undefined && part !== '' : wanted === part;

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The route authenticates its callers in its own `onRequest` hook. */
    admitsCallers?: boolean;
  }
}

/** Authenticates the sender of a request by its headers; undefined for the holder of the registration token. */
export type AuthenticateSender = (request: IncomingMessage) => Promise<Principal | undefined>;

/**
 * Authenticates the sender of every request with a body before the body is read, so that unauthenticated requests cost no more
 * than their headers. Guards decide later whether the principal may use the route. Install it before routes are added.
 */
export function admitBeforeBody(fastify: FastifyInstance, prove: AuthenticateSender, clock: Clock): void {
  fastify.addHook('onRequest', async (request: FastifyRequest & Partial<GuardedRequest>, reply) => {
    if (reply.sent || !carriesBody(request.raw) || request.routeOptions.config.admitsCallers) return;
    try {
      if (request.is404) {
        const path = request.url.split('?', 1)[0]!;
        throw new ToolError('NOT_FOUND', { message: `Cannot ${request.method} ${path}` });
      }
      const principal = await prove(request.raw);
      if (principal) request.principal = principal;
    } catch (error) {
      leaveUnread(request.raw, reply.raw, clock);
      sendError(reply, request.url, toRequestError(error));
      return reply;
    }
  });
}
