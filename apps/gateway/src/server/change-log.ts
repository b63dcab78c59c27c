/** Lines of the audit log on changes over the HTTP API. */
import { Injectable, type CallHandler, type ExecutionContext, type NestInterceptor } from '@nestjs/common';
import { isJsonObject, type JsonObject } from '@toolfleet/contracts';
import { ROUTES, type Route, type RouteKey } from '@toolfleet/contracts/resources';
import { CHAINED, type Logger } from '@toolfleet/telemetry';
import { tap, type Observable } from 'rxjs';
import { toRequestError } from './error.filter.js';
import type { GuardedRequest } from './guards.js';

/** A longer value is named by its length. */
const MAX_VALUE_CHARS = 1_000;

/** Whether requests of a route have lines of their own. */
export const isAudited = (key: RouteKey): boolean => {
  const { audit }: Route = ROUTES[key];
  return key.startsWith('GET ') ? audit !== undefined : audit !== 'none' && audit !== 'calls';
};

interface ChangeRequest extends GuardedRequest {
  params?: unknown;
  body?: unknown;
}

/** Writes one line per request that may have changed something, and per read that is audited, whether it succeeded or not. */
export class ChangeLog {
  constructor(private readonly logger: Pick<Logger, 'info'>) {}

  /** @param answer the body of a success, or the thrown error */
  finished(key: RouteKey, { principal, params, query, body }: ChangeRequest, answer: { body: unknown } | Error): void {
    const route: Route = ROUTES[key];
    const code = answer instanceof Error ? toRequestError(answer).code : refusalInBand(answer.body);
    // Its sender is not known; such requests are counted with the rejected ones.
    if (code === 'UNAUTHENTICATED') return;
    const caller = principal
      ? {
          tenant_id: principal.tenantId,
          user_id: principal.userId,
          key_id: principal.keyId,
          session_id: principal.sessionId,
          via: principal.via,
        }
      : // Only the holder of MCP_REGISTER_TOKEN is not a principal.
        { via: 'registration_token' };
    const queryNames = Object.keys((route.query?.['properties'] ?? {}) as JsonObject);
    this.logger.info(
      {
        audit: CHAINED,
        operation: route.id,
        ...caller,
        path: members(params),
        query: members(query, queryNames),
        body: members(body, Array.isArray(route.audit) ? route.audit : []),
        id: answer instanceof Error ? undefined : idIn(answer.body),
        success: code === undefined,
        code,
      },
      key.startsWith('GET ') ? 'read finished' : 'change finished',
    );
  }
}

/** Goes around the handlers of routes that change something: see `Serves`. */
@Injectable()
export class AuditChanges implements NestInterceptor {
  constructor(private readonly log: ChangeLog) {}

  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const key = Reflect.getMetadata(ROUTE, context.getHandler()) as RouteKey;
    const request = context.switchToHttp().getRequest<ChangeRequest>();
    return next.handle().pipe(
      tap({
        next: (body) => this.log.finished(key, request, { body }),
        error: (thrown: unknown) =>
          this.log.finished(key, request, thrown instanceof Error ? thrown : new Error(String(thrown))),
      }),
    );
  }
}

/** Where a handler has the key of its route. */
export const ROUTE = Symbol('toolfleet.route');

/** The named members that an object has, all by default; undefined if it has none. */
function members(of: unknown, names: readonly string[] = isJsonObject(of) ? Object.keys(of) : []) {
  if (!isJsonObject(of)) return undefined;
  const found = names.flatMap((name) => {
    const value = of[name];
    if (value === undefined) return [];
    const { length } = JSON.stringify(value);
    return [[name, length > MAX_VALUE_CHARS ? `${length} characters` : value] as const];
  });
  return found.length === 0 ? undefined : Object.fromEntries(found);
}

/** The code of a refusal with status 200, as clients of Shannon get it. */
function refusalInBand(body: unknown): string | undefined {
  if (!isJsonObject(body) || body['success'] !== false) return undefined;
  return typeof body['code'] === 'string' ? body['code'] : 'SOURCE_REFUSED';
}

/** The id of the created or changed resource; new keys and webhooks are next to their secret. */
function idIn(body: unknown): string | undefined {
  if (!isJsonObject(body)) return undefined;
  const { id, key, webhook } = body;
  const found = [id, ...[key, webhook].map((one) => (isJsonObject(one) ? one['id'] : undefined))];
  return found.find((one) => typeof one === 'string');
}
