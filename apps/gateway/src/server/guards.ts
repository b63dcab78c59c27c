import type { IncomingHttpHeaders } from 'node:http';
import {
  createParamDecorator,
  type CanActivate,
  type CustomDecorator,
  type ExecutionContext,
  SetMetadata,
} from '@nestjs/common';
import type { FastifyReply } from 'fastify';
import { isToolError, type Principal } from '@toolfleet/contracts';
import { type Authenticate, authenticateRequest, challenge, type RequestLimits, requireRight } from '@toolfleet/access';
import type { Access } from '@toolfleet/contracts/resources';
import { isRight } from '@toolfleet/contracts/roles';
import type { Toolsets } from '@toolfleet/catalog';

const ACCESS = Symbol('toolfleet.access');

/** Who may use a route. `registrar`: the handler authenticates, because the registration token is not an API key. */
export const Allow = (access: Access): CustomDecorator<symbol> => SetMetadata(ACCESS, access);

/** The parts of a Fastify request and reply that the guard uses. */
export interface GuardedRequest {
  /** Node's request; `rawHeaders` keeps duplicates that the parsed headers drop. */
  raw: { rawHeaders: string[] };
  query?: unknown;
  headers?: IncomingHttpHeaders;
  principal?: Principal;
}
interface ChallengedReply {
  header(name: string, value: string): unknown;
}

/** Parameter decorator: the principal of the request. */
export const Caller = createParamDecorator((_: unknown, context: ExecutionContext): Principal => {
  const { principal } = context.switchToHttp().getRequest<GuardedRequest>();
  if (!principal) throw new Error('no principal: the route is public or the guard is not installed');
  return principal;
});

/**
 * Authenticates HTTP requests on every route that is not public. It is registered globally, so that no controller can
 * forget it. The error filter renders errors; the challenge header is set here.
 */
export class AuthGuard implements CanActivate {
  constructor(
    private readonly authenticate: Authenticate,
    private readonly resourceMetadataUrl?: string,
  ) {}

  canActivate(context: ExecutionContext): boolean | Promise<boolean> {
    if (context.getType() !== 'http') return true; // NATS messages are authenticated by NatsCalls
    const access = readAccess(context);
    if (access === 'public' || access === 'registrar') return true;
    const { principal } = context.switchToHttp().getRequest<GuardedRequest>();
    // The sender of a body was identified before the body was read (http/admit-request.ts).
    return principal ? admits(access, principal) : this.identify(context, access);
  }

  private async identify(context: ExecutionContext, access: Access | undefined): Promise<boolean> {
    const request = context.switchToHttp().getRequest<GuardedRequest>();
    try {
      request.principal = await authenticateRequest(this.authenticate, request.raw.rawHeaders);
    } catch (error) {
      if (isToolError(error) && error.code === 'UNAUTHENTICATED') {
        const reply = context.switchToHttp().getResponse<ChallengedReply>();
        reply.header('WWW-Authenticate', challenge(this.resourceMetadataUrl));
      }
      throw error;
    }
    return admits(access, request.principal);
  }
}

/** @throws ToolError PERMISSION_DENIED */
function admits(access: Access | undefined, principal: Principal): true {
  if (access !== undefined && isRight(access)) requireRight(principal, access);
  return true;
}

const accesses = new WeakMap<object, Access | undefined>();

/** The decorator of the handler takes precedence over its controller's. */
function readAccess(context: ExecutionContext): Access | undefined {
  const handler = context.getHandler();
  if (!accesses.has(handler)) {
    const own: unknown = Reflect.getMetadata(ACCESS, handler) ?? Reflect.getMetadata(ACCESS, context.getClass());
    accesses.set(handler, own as Access | undefined);
  }
  return accesses.get(handler);
}

/**
 * Counts every authenticated HTTP request against the limits of its caller and shows the rest in `X-RateLimit-*`. A guard,
 * not an interceptor: a single interceptor makes Nest wrap every answer in an observable.
 */
export class KeyLimitGuard implements CanActivate {
  constructor(private readonly limits: RequestLimits) {}

  canActivate(context: ExecutionContext): boolean | Promise<boolean> {
    if (context.getType() !== 'http') return true;
    const http = context.switchToHttp();
    const { principal } = http.getRequest<GuardedRequest>();
    if (!principal) return true; // public routes
    const show = (headers: Record<string, string>) => void http.getResponse<FastifyReply>().headers(headers);
    return this.limits.count(principal, show)?.then(() => true) ?? true;
  }
}

/** Header by which a request names its toolset: `support`, or `support@3` for one version. */
export const TOOLSET_HEADER = 'x-toolset';

/** Gives the caller of a request the toolset that `?toolset=`, the header `X-Toolset` or its credential names. */
export class ToolsetGuard implements CanActivate {
  constructor(private readonly toolsets: Pick<Toolsets, 'select'>) {}

  canActivate(context: ExecutionContext): boolean | Promise<boolean> {
    if (context.getType() !== 'http') return true; // NatsCalls selects messages' guards
    const request = context.switchToHttp().getRequest<GuardedRequest>();
    const { principal, query, headers } = request;
    if (!principal) return true; // public routes
    const named = (query as { toolset?: unknown } | undefined)?.toolset ?? headers?.[TOOLSET_HEADER];
    if (named === undefined && !principal.toolset) return true;
    const selected = this.toolsets.select(principal, named === undefined ? undefined : String(named));
    return Promise.resolve(selected).then((found) => {
      request.principal = found;
      return true;
    });
  }
}
