import type { UsageRow } from '@toolfleet/client';

export type Measure = 'cost_usd' | 'calls' | 'tokens';

/** Columns of a stacked chart: per day one value per series. */
export interface StackedUsage {
  days: readonly string[];
  /** Names of the series, the largest first; the rest is summed as `others`. */
  series: { name: string; total: number; values: number[] }[];
}

/** As many series as there are colours that can be told apart; the last one takes the rest. */
const MOST_SERIES = 6;
export const OTHERS = 'others';

/** Usage per day and tool as stacked columns, days without usage included. */
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
