import { isJsonObject, type JsonObject } from '@toolfleet/contracts';

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
