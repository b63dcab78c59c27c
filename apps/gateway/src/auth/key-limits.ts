import {
  isJsonObject,
  type JsonObject,
  ToolError,
  ADMIN_ROLE,
  OPERATOR_ROLE,
  type Principal,
} from '@toolfleet/contracts';

/** Requests a key may make per window. */
export interface Tier {
  minute: number;
  hour: number;
  day: number;
}

/** Rate classes of API keys; `rate_limits.tiers` of the configuration file overrides them. */
export const DEFAULT_TIERS: Readonly<Record<string, Tier>> = {
  free: { minute: 60, hour: 1_000, day: 10_000 },
  pro: { minute: 200, hour: 5_000, day: 50_000 },
  max: { minute: 300, hour: 10_000, day: 100_000 },
  enterprise: { minute: 500, hour: 20_000, day: 200_000 },
  admin: { minute: 1_000, hour: 100_000, day: 1_000_000 },
  nats: { minute: 10_000, hour: 300_000, day: 3_000_000 },
};

/** Tier of a key that names none, or one that is not configured: the smallest promise. */
export const FALLBACK_TIER = 'free';

/** Tier of callers that have a NATS user and send no key. */
export const NATS_TIER = 'nats';

const FIELDS = { requests_per_minute: 'minute', requests_per_hour: 'hour', requests_per_day: 'day' } as const;

/**
 * The tiers of section `rate_limits.tiers`: a name that exists is changed field by field, a new one starts from `free`.
 * @throws Error naming the place of every value that is not a positive whole number.
 */
export function readTiers(section: unknown): Record<string, Tier> {
  const tiers: Record<string, Tier> = { ...DEFAULT_TIERS };
  if (section === undefined || section === null) return tiers;
  const faults: string[] = [];
  if (!isJsonObject(section)) throw new Error('rate_limits.tiers must be a mapping of tier names');
  for (const [name, raw] of Object.entries(section)) {
    if (!isJsonObject(raw)) {
      faults.push(`rate_limits.tiers.${name} must be a mapping`);
      continue;
    }
    const tier = { ...(tiers[name] ?? DEFAULT_TIERS[FALLBACK_TIER]!) };
    faults.push(...applyFields(name, raw, tier));
    tiers[name] = tier;
  }
  if (faults.length > 0) throw new Error(faults.join('; '));
  return tiers;
}

function applyFields(name: string, raw: JsonObject, tier: Tier): string[] {
  return Object.entries(raw).flatMap(([key, value]) => {
    const field = FIELDS[key as keyof typeof FIELDS];
    const place = `rate_limits.tiers.${name}.${key}`;
    if (!field) return [`${place} is not one of ${Object.keys(FIELDS).join(', ')}`];
    if (!Number.isSafeInteger(value) || (value as number) < 1) return [`${place} must be a whole number of at least 1`];
    tier[field] = value as number;
    return [];
  });
}

/** What is left of a key's windows after a request. */
export interface KeyAllowance {
  allowed: boolean;
  remainingMinute: number;
  remainingHour: number;
  /** Unix seconds at which the minute (or, refused, the exhausted window) starts again. */
  resetAtSeconds: number;
  /** The exhausted window when refused. */
  window?: 'minute' | 'hour' | 'day';
  retryAfterMs?: number;
}

/** Counts requests of API keys. A refused request uses nothing up, so that a client that keeps trying recovers. */
export abstract class KeyLimits {
  /**
   * Counts `calls` requests of `id` (key id, else user) in its tier: all of them, or none when there are not enough left.
   * Null when the store is away: requests pass then.
   */
  abstract take(id: string, tier: Tier, calls?: number): Promise<KeyAllowance | null>;
}

/** `X-RateLimit-*` headers of an answer. */
export function rateLimitHeaders(tier: Tier, allowance: KeyAllowance): Record<string, string> {
  return {
    'X-RateLimit-Limit-Minute': String(tier.minute),
    'X-RateLimit-Remaining-Minute': String(allowance.remainingMinute),
    'X-RateLimit-Limit-Hour': String(tier.hour),
    'X-RateLimit-Remaining-Hour': String(allowance.remainingHour),
    'X-RateLimit-Reset': String(allowance.resetAtSeconds),
  };
}

/** The 429 of an exhausted key. @param batch number of calls in the batch that did not fit */
export function keyLimitError(tier: Tier, allowance: KeyAllowance, batch?: number): ToolError {
  const window = allowance.window ?? 'minute';
  const exceeded = `Rate limit exceeded: ${tier[window]} requests per ${window}`;
  return new ToolError('RATE_LIMITED', {
    message: batch === undefined ? exceeded : `${exceeded}; this batch has ${batch} calls, so send smaller ones`,
    details: { window, limit: tier[window], ...(batch === undefined ? {} : { calls: batch }) },
    retryAfterMs: allowance.retryAfterMs ?? 1_000,
  });
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
