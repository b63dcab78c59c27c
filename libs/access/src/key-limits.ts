import { ToolError, ADMIN_ROLE, OPERATOR_ROLE, type Principal } from '@toolfleet/contracts';
import type { FleetFile } from '@toolfleet/fleet-file';

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

/** Tier of a key that names none, or one that is not configured: the smallest. */
const FALLBACK_TIER = 'free';

/** Tier of callers with a NATS user and no API key. */
const NATS_TIER = 'nats';

/** The tiers of section `rate_limits`: the fields of a known tier are replaced one by one, a new tier starts from `free`. */
export function withTiers(configured: FleetFile['rate_limits']['tiers'] = {}): Record<string, Tier> {
  const tiers: Record<string, Tier> = { ...DEFAULT_TIERS };
  for (const [name, given] of Object.entries(configured)) {
    const { minute, hour, day } = tiers[name] ?? DEFAULT_TIERS[FALLBACK_TIER]!;
    tiers[name] = {
      minute: given.requests_per_minute ?? minute,
      hour: given.requests_per_hour ?? hour,
      day: given.requests_per_day ?? day,
    };
  }
  return tiers;
}

/** Rest of a caller's windows after a request. */
export interface KeyAllowance {
  allowed: boolean;
  remainingMinute: number;
  remainingHour: number;
  /** Unix time in seconds at which the current minute ends or, if the request was refused, the exhausted window. */
  resetAtSeconds: number;
  /** The exhausted window, if the request was refused. */
  window?: 'minute' | 'hour' | 'day';
  retryAfterMs?: number;
}

/** Counts requests in the windows of a tier. A refused request uses nothing up, so that a client that keeps trying recovers. */
export abstract class KeyLimits {
  /**
   * Counts `calls` requests of a caller: all of them, or none if not enough are left.
   * @param id key id, else tenant and user
   * @returns null while the store is unavailable; the request is then admitted. A promise only if the store has to be asked.
   */
  abstract take(id: string, tier: Tier, calls?: number): KeyAllowance | null | Promise<KeyAllowance | null>;
}

/** Receives the `X-RateLimit-*` headers of an answer. */
export type ShowAllowance = (headers: Record<string, string>) => void;

/**
 * Limits the requests of each caller by its tier, on every entry point: an HTTP request, a NATS message and each call of a
 * batch count as one request. This is where a caller gets 429 for its key; the limits of tools are the engine's.
 */
export class RequestLimits {
  constructor(
    private readonly store: KeyLimits,
    private readonly tiers: Readonly<Record<string, Tier>>,
    private readonly onRefused: () => void = () => undefined,
  ) {}

  /** Names of all tiers. */
  get tierNames(): string[] {
    return Object.keys(this.tiers);
  }

  /**
   * Counts one request; undefined when that is done at once.
   * @throws ToolError RATE_LIMITED when a window of the caller's tier is exhausted
   */
  count(principal: Principal, show?: ShowAllowance): Promise<void> | undefined {
    return this.take(principal, 1, show);
  }

  /**
   * Counts the calls of a batch after its request: a batch of 100 calls is 100 requests. A batch that does not
   * fit is refused before any of its calls runs.
   * @throws ToolError RATE_LIMITED
   */
  async countBatch(principal: Principal, calls: number, show?: ShowAllowance): Promise<void> {
    if (calls > 1) await this.take(principal, calls - 1, show, calls);
  }

  /**
   * The tier a credential names. Without one, administrators and operators get `admin`, NATS users without a key `nats`, all
   * others `free`; so does a credential without a configured tier.
   */
  tier({ tier, roles, via }: Principal): Tier {
    const isAdmin = roles.includes(ADMIN_ROLE) || roles.includes(OPERATOR_ROLE);
    const isKeyless = via === 'nats_subject' || via === 'local';
    const name = tier ?? (isAdmin ? 'admin' : isKeyless ? NATS_TIER : FALLBACK_TIER);
    return this.tiers[name] ?? this.tiers[FALLBACK_TIER]!;
  }

  private take(principal: Principal, calls: number, show?: ShowAllowance, batch?: number): Promise<void> | undefined {
    const tier = this.tier(principal);
    const taken = this.store.take(limitedId(principal), tier, calls);
    const admit = (allowance: KeyAllowance | null): void => {
      if (!allowance) return;
      show?.(rateLimitHeaders(tier, allowance));
      if (allowance.allowed) return;
      this.onRefused();
      throw keyLimitError(tier, allowance, batch);
    };
    if (taken instanceof Promise) return taken.then(admit);
    admit(taken);
    return undefined;
  }
}

/** Requests that are counted together: the key's, else the user's. */
export function limitedId(principal: Principal): string {
  return principal.keyId ?? `${principal.tenantId}/${principal.userId}`;
}

function rateLimitHeaders(tier: Tier, allowance: KeyAllowance): Record<string, string> {
  return {
    'X-RateLimit-Limit-Minute': String(tier.minute),
    'X-RateLimit-Remaining-Minute': String(allowance.remainingMinute),
    'X-RateLimit-Limit-Hour': String(tier.hour),
    'X-RateLimit-Remaining-Hour': String(allowance.remainingHour),
    'X-RateLimit-Reset': String(allowance.resetAtSeconds),
  };
}

/** @param batch number of calls in the batch that did not fit */
function keyLimitError(tier: Tier, allowance: KeyAllowance, batch?: number): ToolError {
  const window = allowance.window ?? 'minute';
  const exceeded = `Rate limit exceeded: ${tier[window]} requests per ${window}`;
  return new ToolError('RATE_LIMITED', {
    message: batch === undefined ? exceeded : `${exceeded}; this batch has ${batch} calls, so send smaller ones`,
    details: { window, limit: tier[window], calls: batch },
    retryAfterMs: allowance.retryAfterMs ?? 1_000,
  });
}
