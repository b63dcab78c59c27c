import type { UsageRow } from '@toolfleet/client';

export type Measure = 'cost_usd' | 'calls' | 'tokens';

/** Data of a stacked chart: one value per series and day. */
export interface StackedUsage {
  days: readonly string[];
  /** The largest series, in descending order; the rest is summed as `others`. */
  series: { name: string; total: number; values: number[] }[];
}

/** Number of distinguishable colors. The last one is for the sum of all other series. */
const MOST_SERIES = 6;
export const OTHERS = 'others';

/** Usage by day and tool as stacked columns. Days without usage are 0. */
export function stackUsage(rows: readonly UsageRow[], days: readonly string[], measure: Measure): StackedUsage {
  const place = new Map(days.map((day, index) => [day, index]));
  const byTool = new Map<string, number[]>();
  for (const { day = '', tool_name: tool = '', [measure]: value } of rows) {
    const at = place.get(day);
    if (at === undefined) continue;
    const values = byTool.get(tool) ?? days.map(() => 0);
    values[at] = (values[at] ?? 0) + value;
    byTool.set(tool, values);
  }
  const all = [...byTool]
    .map(([name, values]) => ({ name, values, total: values.reduce((sum, value) => sum + value, 0) }))
    .filter(({ total }) => total > 0)
    .toSorted((a, b) => b.total - a.total);
  if (all.length <= MOST_SERIES) return { days, series: all };
  const rest = all.slice(MOST_SERIES - 1);
  const values = days.map((_, index) => rest.reduce((sum, series) => sum + (series.values[index] ?? 0), 0));
  const others = { name: OTHERS, values, total: rest.reduce((sum, { total }) => sum + total, 0) };
  return { days, series: [...all.slice(0, MOST_SERIES - 1), others] };
}

/** The smallest number of the form 1, 2 or 5 times a power of ten that is at least `value`. */
export function niceCeiling(value: number): number {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  const step = [1, 2, 5, 10].find((one) => one * power >= value * (1 - 1e-9)) ?? 10;
  return step * power;
}

/** Days (`2026-01-31`) from `from` to `to`, inclusive. */
export function daysBetween(from: string, to: string): string[] {
  const days: string[] = [];
  for (let at = Date.parse(`${from}T00:00:00Z`); at <= Date.parse(`${to}T00:00:00Z`); at += 86_400_000) {
    days.push(new Date(at).toISOString().slice(0, 10));
  }
  return days;
}

/** The UTC day that is `days` before an instant. The ledger counts in UTC. */
export function dayBefore(now: number, days: number): string {
  return new Date(now - days * 86_400_000).toISOString().slice(0, 10);
}
