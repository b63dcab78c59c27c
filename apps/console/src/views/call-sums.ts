import type { CallSum } from '@toolfleet/client';

/** Sums of the calls of one value. */
export interface ValueSum {
  value: string;
  calls: number;
  failures: number;
  cost_usd: number;
  mean_ms: number;
  max_ms: number;
}

/**
 * Sums of calls by one of the members that they were grouped by, those with the most calls first. Calls without the member are left out.
 */
export function sumBy(rows: readonly CallSum[], member: 'tool' | 'user_id' | 'code'): ValueSum[] {
  const groups = Map.groupBy(rows, (row) => row[member] ?? '');
  groups.delete('');
  return [...groups]
    .map(([value, group]) => ({ value, ...totalOf(group) }))
    .toSorted((one, other) => other.calls - one.calls);
}

/** The sum of all rows. */
export function totalOf(rows: readonly CallSum[]): Omit<ValueSum, 'value'> {
  const total = { calls: 0, failures: 0, cost_usd: 0, mean_ms: 0, max_ms: 0 };
  let ms = 0;
  for (const row of rows) {
    total.calls += row.calls;
    total.failures += row.failures;
    total.cost_usd += row.cost_usd;
    total.max_ms = Math.max(total.max_ms, row.max_ms);
    ms += row.mean_ms * row.calls;
  }
  return { ...total, mean_ms: total.calls === 0 ? 0 : ms / total.calls };
}
