import type { CallHandler, ExecutionContext, NestInterceptor } from '@nestjs/common';
import { ADMIN_ROLE, type Principal } from '@toolfleet/contracts';
import type { FastifyReply } from 'fastify';
import type { Observable } from 'rxjs';
import type { GuardedRequest } from '../auth/auth.guard.js';
import { keyLimitError, rateLimitHeaders, type KeyLimits } from './key-limits.js';
import { FALLBACK_TIER, type Tier } from './tiers.js';

/** Counts every authenticated HTTP request against its key's tier and shows what is left in `X-RateLimit-*`. */
export class KeyLimitInterceptor implements NestInterceptor {
  constructor(
    private readonly limits: KeyLimits,
    private readonly tiers: Readonly<Record<string, Tier>>,
  ) {}

  async intercept(context: ExecutionContext, next: CallHandler): Promise<Observable<unknown>> {
    const http = context.switchToHttp();
    const principal = context.getType() === 'http' ? http.getRequest<GuardedRequest>().principal : undefined;
    if (!principal) return next.handle();
    const tier = tierOf(principal, this.tiers);
    const allowance = await this.limits.take(limitedId(principal), tier);
    if (allowance) {
      void http.getResponse<FastifyReply>().headers(rateLimitHeaders(tier, allowance));
      if (!allowance.allowed) throw keyLimitError(tier, allowance);
    }
    return next.handle();
  }
}

/** The key, else the user: what a limit counts. */
export function limitedId(principal: Principal): string {
  return principal.keyId ?? `${principal.tenantId}/${principal.userId}`;
}

/** The tier a credential names; administrators without one get `admin`, everyone else the smallest. */
export function tierOf(principal: Principal, tiers: Readonly<Record<string, Tier>>): Tier {
  const named = principal.tier ?? (principal.roles.includes(ADMIN_ROLE) ? 'admin' : FALLBACK_TIER);
  return tiers[named] ?? tiers[FALLBACK_TIER]!;
}
