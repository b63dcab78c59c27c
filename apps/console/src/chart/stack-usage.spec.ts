import { expect, it } from 'vitest';
import { dayBefore, daysBetween, niceCeiling, OTHERS, stackUsage } from './stack-usage.js';

const row = (day: string, tool: string, cost: number, calls = 1) => ({
  day,
  tool_name: tool,
  calls,
  tokens: 0,
  cost_usd: cost,
});

it('stacks usage by day, largest series first, with 0 for days without usage', () => {
  const days = daysBetween('2026-02-27', '2026-03-02');
  expect(days).toEqual(['2026-02-27', '2026-02-28', '2026-03-01', '2026-03-02']);
  const rows = [
    row('2026-02-27', 'a', 1),
    row('2026-03-01', 'b', 5),
    row('2026-03-01', 'a', 2),
    row('2020-01-01', 'a', 9),
  ];
  expect(stackUsage(rows, days, 'cost_usd').series).toEqual([
    { name: 'b', total: 5, values: [0, 0, 5, 0] },
    { name: 'a', total: 3, values: [1, 0, 2, 0] },
  ]);
  expect(stackUsage(rows, days, 'tokens').series).toEqual([]);
});

it('sums the series beyond the number of colors', () => {
  const days = ['2026-01-01'];
  const rows = Array.from({ length: 9 }, (_, index) => row('2026-01-01', `t${index}`, index + 1));
  const { series } = stackUsage(rows, days, 'cost_usd');
  expect(series.map(({ name }) => name)).toEqual(['t8', 't7', 't6', 't5', 't4', OTHERS]);
  expect(series.reduce((sum, { total }) => sum + total, 0)).toBe(45);
});

it.each([
  [0, 1],
  [0.0007, 0.001],
  [1, 1],
  [1.2, 2],
  [37, 50],
  [100, 100],
  [101, 200],
])('%d fits under %d', (value, ceiling) => {
  expect(niceCeiling(value)).toBeCloseTo(ceiling, 10);
});

it('counts days in UTC', () => {
  expect(dayBefore(Date.UTC(2026, 2, 1, 0, 30), 1)).toBe('2026-02-28');
});
