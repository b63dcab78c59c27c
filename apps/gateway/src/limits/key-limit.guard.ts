import type { CanActivate, ExecutionContext } from '@nestjs/common';
import { ADMIN_ROLE, OPERATOR_ROLE, type Principal } from '@toolfleet/contracts';
import type { FastifyReply } from 'fastify';
import type { GuardedRequest } from '../auth/auth.guard.js';
import { keyLimitError, rateLimitHeaders, type KeyLimits } from './key-limits.js';
import { FALLBACK_TIER, type Tier } from './tiers.js';

/**
 * Counts every authenticated HTTP request against its key's tier and shows what is left in `X-RateLimit-*`. A guard, not an
 * interceptor: one interceptor anywhere makes Nest wrap every answer in an observable.
 */
export class KeyLimitGuard implements CanActivate {
  constructor(
    private readonly limits: KeyLimits,
    private readonly tiers: Readonly<Record<string, Tier>>,
  ) {}

  async canActivate(context: ExecutionContext): Promise<boolean> {
    if (context.getType() !== 'http') return true;
    const http = context.switchToHttp();
    const { principal } = http.getRequest<GuardedRequest>();
    if (!principal) return true; // public routes
    const show = (headers: Record<string, string>) => void http.getResponse<FastifyReply>().headers(headers);
    await requireAllowance(this.limits, this.tiers, principal, show);
    return true;
  }
}

/**
 * Counts one request of a caller.
 * @throws ToolError RATE_LIMITED when a window of its tier is used up
 */
export async function requireAllowance(
  limits: KeyLimits,
  tiers: Readonly<Record<string, Tier>>,
  principal: Principal,
  show: (headers: Record<string, string>) => void = () => undefined,
): Promise<void> {
  const tier = tierOf(principal, tiers);
  const allowance = await limits.take(limitedId(principal), tier);
  if (!allowance) return;
  show(rateLimitHeaders(tier, allowance));
  if (!allowance.allowed) throw keyLimitError(tier, allowance);
}

/** The key, else the user: what a limit counts. */
export function limitedId(principal: Principal): string {
  return principal.keyId ?? `${principal.tenantId}/${principal.userId}`;
}

/** The tier a credential names; administrators and operators without one get `admin`, everyone else the smallest. */
export function tierOf(principal: Principal, tiers: Readonly<Record<string, Tier>>): Tier {
  const isOfAdmin = [ADMIN_ROLE, OPERATOR_ROLE].some((role) => principal.roles.includes(role));
  const named = principal.tier ?? (isOfAdmin ? 'admin' : FALLBACK_TIER);
  return tiers[named] ?? tiers[FALLBACK_TIER]!;
}
