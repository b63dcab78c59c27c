import { toUsd, type EpochMs } from '@toolfleet/contracts';
import type { UsageSum } from '@toolfleet/contracts/budget';
import type { UsageGroup } from '@toolfleet/contracts/resources';

const DAY_MS = 86_400_000;
/** Days that the mean is of. */
const OBSERVED_DAYS = 7;

/** The UTC month of an instant. */
export function monthOf(now: EpochMs): { name: string; startsAt: EpochMs; endsAt: EpochMs } {
  const date = new Date(now);
  const start = (months: number) => Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + months);
  return { name: date.toISOString().slice(0, 7), startsAt: start(0), endsAt: start(1) };
}

/**
 * Days that a mean over the last `OBSERVED_DAYS` may divide by: all of them, or those since the first usage, at least one.
 * @param days the UTC days of the usage of this time, `2026-11-21`
 */
export function observedDays(days: readonly string[], now: EpochMs): number {
  const [first] = days.toSorted();
  if (first === undefined) return 0;
  return Math.min(OBSERVED_DAYS, Math.max(1, (now - Date.parse(first)) / DAY_MS));
}

/** Sums by groups since an instant. */
type SumsSince = (fromAt: EpochMs, groups: readonly UsageGroup[]) => Promise<UsageSum[]>;

/** The body of a forecast: this month and its end by groups. */
export async function forecastMonth(sumsSince: SumsSince, groups: readonly UsageGroup[], now: EpochMs) {
  const month = monthOf(now);
  const observedFrom = now - OBSERVED_DAYS * DAY_MS;
  const [spent, lately, byDay] = await Promise.all([
    sumsSince(month.startsAt, groups),
    sumsSince(observedFrom, groups),
    sumsSince(observedFrom, ['day']),
  ]);
  const days = observedDays(
    byDay.map(({ day = '' }) => day),
    now,
  );
  return {
    month: month.name,
    ends_at: new Date(month.endsAt).toISOString(),
    observed_days: Math.round(days * 10) / 10,
    rows: forecast(spent, lately, { days, now }),
  };
}

type ForecastGroup = Omit<UsageSum, 'calls' | 'tokens' | 'micro_usd'>;

/**
 * Spending of each group at the end of the month: so far, and the mean of the observed days for every day that is
 * left. No trend and no week days, so that anyone can check it.
 * @param month sums since the start of the month @param recent sums of the observed days
 */
export function forecast(
  month: readonly UsageSum[],
  recent: readonly UsageSum[],
  { days, now }: { days: number; now: EpochMs },
) {
  const spent = byGroup(month);
  const lately = byGroup(recent);
  const daysLeft = (monthOf(now).endsAt - now) / DAY_MS;
  const rows = [...new Set([...spent.keys(), ...lately.keys()])].map((key) => {
    const microUsd = spent.get(key) ?? 0;
    const perDay = days === 0 ? 0 : (lately.get(key) ?? 0) / days;
    return {
      ...(JSON.parse(key) as ForecastGroup),
      spent_usd: toUsd(microUsd),
      per_day_usd: toUsd(Math.round(perDay)),
      forecast_usd: toUsd(Math.round(microUsd + perDay * daysLeft)),
    };
  });
  return rows.toSorted((one, other) => other.forecast_usd - one.forecast_usd);
}

/** Spent micro-USD by the JSON text of each group. */
function byGroup(sums: readonly UsageSum[]): Map<string, number> {
  return new Map(
    sums.map(({ calls: _calls, tokens: _tokens, micro_usd: microUsd, ...group }) => [JSON.stringify(group), microUsd]),
  );
}
