import type { IncomingMessage } from 'node:http';
import { ToolError, type Principal } from '@toolfleet/contracts';
import type { Clock } from '@toolfleet/resilience';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { GuardedRequest } from '../auth/auth.guard.js';
import { errorOf, sendError } from './error.filter.js';
import { carriesBody, leaveUnread } from './unread-body.js';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The route proves its callers in an `onRequest` hook of its own. */
    admitsCallers?: boolean;
  }
}

/** Proves the sender of a request by its headers; undefined for a sender that is no principal (a registration token). */
export type ProveSender = (request: IncomingMessage) => Promise<Principal | undefined>;

/**
 * Proves the sender of every request that carries a body before the body is read: strangers cost their headers, not up to
 * `GATEWAY_MAX_BODY_BYTES` of memory and a parse. Guards decide later whether the principal may use the route. Install it
 * before routes are added.
 */
export function admitBeforeBody(fastify: FastifyInstance, prove: ProveSender, clock: Clock): void {
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
      leaveUnread(request.raw, clock);
      sendError(reply, request.url, errorOf(error));
      return reply;
    }
  });
}
