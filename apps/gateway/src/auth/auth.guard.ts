import {
  createParamDecorator,
  type CanActivate,
  type CustomDecorator,
  type ExecutionContext,
  SetMetadata,
} from '@nestjs/common';
import type { FastifyReply } from 'fastify';
import { isToolError, type Principal } from '@toolfleet/contracts';
import { type Authenticate, callerOfRequest } from './authenticate.js';
import { challenge } from './credential.js';
import type { RequestLimits } from './key-limits.js';
import { requireAdmin, requireOperator } from './roles.js';

const ACCESS = Symbol('toolfleet.access');

/** Route or controller that needs no credential (health, documents). */
export const Public = (): CustomDecorator<symbol> => SetMetadata(ACCESS, 'public');
/** Route or controller for administrators of a tenant, and operators. */
export const AdminOnly = (): CustomDecorator<symbol> => SetMetadata(ACCESS, 'admin');
/** Route or controller for operators of the fleet. */
export const OperatorOnly = (): CustomDecorator<symbol> => SetMetadata(ACCESS, 'operator');

type Access = 'public' | 'admin' | 'operator';

/** What the guard uses of a Fastify request and reply. */
export interface GuardedRequest {
  /** Node's request: `rawHeaders` shows duplicates, the parsed headers do not. */
  raw: { rawHeaders: string[] };
  principal?: Principal;
}
interface ChallengedReply {
  header(name: string, value: string): unknown;
}

/** The principal of the request, in a controller's parameter list. */
export const Caller = createParamDecorator((_: unknown, context: ExecutionContext): Principal => {
  const { principal } = context.switchToHttp().getRequest<GuardedRequest>();
  if (!principal) throw new Error('no principal: the route is public or the guard is not installed');
  return principal;
});

/**
 * Nest shell of `authenticate` for HTTP: closed unless a route says `@Public()`. Register it globally with
 * `{ provide: APP_GUARD, useFactory: … }`, so that no controller can forget it. Errors are rendered by the error filter;
 * the challenge header is set here because only a 401 of ours carries it.
 */
export class AuthGuard implements CanActivate {
  constructor(
    private readonly authenticate: Authenticate,
    private readonly resourceMetadataUrl?: string,
  ) {}

  async canActivate(context: ExecutionContext): Promise<boolean> {
    if (context.getType() !== 'http') return true; // NATS endpoints ask natsPrincipal
    const access = accessOf(context);
    if (access === 'public') return true;
    const request = context.switchToHttp().getRequest<GuardedRequest>();
    try {
      // Requests with a body were proved before it was read.
      request.principal ??= await callerOfRequest(this.authenticate, request.raw.rawHeaders);
    } catch (error) {
      if (isToolError(error) && error.code === 'UNAUTHENTICATED') {
        const reply = context.switchToHttp().getResponse<ChallengedReply>();
        reply.header('WWW-Authenticate', challenge(this.resourceMetadataUrl));
      }
      throw error;
    }
    if (access === 'admin') requireAdmin(request.principal);
    if (access === 'operator') requireOperator(request.principal);
    return true;
  }
}

/** The handler's own mark wins over its controller's. */
function accessOf(context: ExecutionContext): Access | undefined {
  return (Reflect.getMetadata(ACCESS, context.getHandler()) ?? Reflect.getMetadata(ACCESS, context.getClass())) as
    | Access
    | undefined;
}

/**
 * Counts every authenticated HTTP request against its key's tier and shows what is left in `X-RateLimit-*`. A guard, not an
 * interceptor: one interceptor anywhere makes Nest wrap every answer in an observable.
 */
export class KeyLimitGuard implements CanActivate {
  constructor(private readonly limits: RequestLimits) {}

  async canActivate(context: ExecutionContext): Promise<boolean> {
    if (context.getType() !== 'http') return true;
    const http = context.switchToHttp();
    const { principal } = http.getRequest<GuardedRequest>();
    if (!principal) return true; // public routes
    const show = (headers: Record<string, string>) => void http.getResponse<FastifyReply>().headers(headers);
    await this.limits.count(principal, show);
    return true;
  }
}
