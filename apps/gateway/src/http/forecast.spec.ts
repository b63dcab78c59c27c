import { describe, expect, it } from 'vitest';
import { forecast, monthOf, observedDays } from './forecast.js';

const NOW = Date.UTC(2026, 10, 21, 12);
const sum = (tool_name: string, micro_usd: number) => ({ tool_name, micro_usd, calls: 1, tokens: 0 });

describe('forecast', () => {
  it('adds the mean of the observed days for the rest of the month', () => {
    // 9.5 days are left of November.
    expect(
      forecast([sum('a', 20_000_000), sum('old', 500_000)], [sum('a', 14_000_000), sum('new', 7_000_000)], {
        days: 7,
        now: NOW,
      }),
    ).toEqual([
      { tool_name: 'a', spent_usd: 20, per_day_usd: 2, forecast_usd: 39 },
      { tool_name: 'new', spent_usd: 0, per_day_usd: 1, forecast_usd: 9.5 },
      { tool_name: 'old', spent_usd: 0.5, per_day_usd: 0, forecast_usd: 0.5 },
    ]);
  });

  it.each<[string, string[], number]>([
    ['nothing was used', [], 0],
    ['usage began today', ['2026-11-21'], 1],
    ['usage began some days ago', ['2026-11-20', '2026-11-18'], 3.5],
    ['there is usage of all days', ['2026-11-14', '2026-11-21'], 7],
  ])('counts the days that were observed: %s', (_, days, expected) => {
    expect(observedDays(days, NOW)).toBe(expected);
  });

  it('knows the month, also at the end of a year', () => {
    expect(monthOf(Date.UTC(2026, 11, 31, 23))).toEqual({
      name: '2026-12',
      startsAt: Date.UTC(2026, 11, 1),
      endsAt: Date.UTC(2027, 0, 1),
    });
  });
});
