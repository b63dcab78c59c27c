import type { CanActivate, ExecutionContext } from '@nestjs/common';
import { ADMIN_ROLE, OPERATOR_ROLE, type Principal } from '@toolfleet/contracts';
import type { FastifyReply } from 'fastify';
import type { GuardedRequest } from './auth.guard.js';
import { keyLimitError, rateLimitHeaders, type KeyLimits } from './key-limits.js';
import { FALLBACK_TIER, NATS_TIER, type Tier } from './tiers.js';

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

/** Where the headers of an allowance go. */
export type ShowAllowance = (headers: Record<string, string>) => void;

/**
 * Counts a request of a caller: every HTTP request and every NATS message is one.
 * @param batch size of a batch, of which the request was counted already
 * @throws ToolError RATE_LIMITED when a window of its tier is used up
 */
export async function requireAllowance(
  limits: KeyLimits,
  tiers: Readonly<Record<string, Tier>>,
  principal: Principal,
  show: ShowAllowance = () => undefined,
  batch?: number,
): Promise<void> {
  const tier = tierOf(principal, tiers);
  const allowance = await limits.take(limitedId(principal), tier, batch === undefined ? 1 : batch - 1);
  if (!allowance) return;
  show(rateLimitHeaders(tier, allowance));
  if (!allowance.allowed) throw keyLimitError(tier, allowance, batch);
}

/** Counts the calls that a request carries, beyond the one that the request itself was counted as. */
export type CountCalls = (principal: Principal, calls: number, show?: ShowAllowance) => Promise<void>;

/**
 * How batches on every entry point are counted: a batch of 100 calls is 100 requests. What does not fit is refused as a whole,
 * before any of its calls runs.
 */
export function batchCounter(limits: KeyLimits, tiers: Readonly<Record<string, Tier>>): CountCalls {
  return async (principal, calls, show) => {
    if (calls > 1) await requireAllowance(limits, tiers, principal, show, calls);
  };
}

/** The key, else the user: what a limit counts. */
export function limitedId(principal: Principal): string {
  return principal.keyId ?? `${principal.tenantId}/${principal.userId}`;
}

/**
 * The tier a credential names; without one, administrators and operators get `admin`, NATS users without a key `nats`,
 * everyone else the smallest.
 */
export function tierOf(principal: Principal, tiers: Readonly<Record<string, Tier>>): Tier {
  const isOfAdmin = [ADMIN_ROLE, OPERATOR_ROLE].some((role) => principal.roles.includes(role));
  const named = principal.tier ?? (isOfAdmin ? 'admin' : isKeyless(principal) ? NATS_TIER : FALLBACK_TIER);
  return tiers[named] ?? tiers[FALLBACK_TIER]!;
}

/** A sender that the NATS server vouches for. */
const isKeyless = ({ via }: Principal): boolean => via === 'nats_subject' || via === 'local';
