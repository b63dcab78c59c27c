import { expect, it } from 'vitest';
import type { CallSum } from '@toolfleet/client';
import { sumBy, totalOf } from './call-sums.js';

const sum = (more: Partial<CallSum>): CallSum => ({
  calls: 1,
  failures: 0,
  cost_usd: 0,
  tokens: 0,
  mean_ms: 0,
  max_ms: 0,
  ...more,
});
const ROWS = [
  sum({ tool: 'calculator', user_id: 'ann', calls: 3, mean_ms: 10, max_ms: 20, cost_usd: 0.25 }),
  sum({ tool: 'calculator', user_id: 'bob', code: 'RATE_LIMITED', failures: 1, mean_ms: 50, max_ms: 50 }),
  sum({ tool: 'search', user_id: 'ann', calls: 5, mean_ms: 2, max_ms: 3, cost_usd: 0.5 }),
];

it('sums by one member, with means weighted by calls', () => {
  expect(sumBy(ROWS, 'tool')).toEqual([
    { value: 'search', calls: 5, failures: 0, cost_usd: 0.5, mean_ms: 2, max_ms: 3 },
    { value: 'calculator', calls: 4, failures: 1, cost_usd: 0.25, mean_ms: 20, max_ms: 50 },
  ]);
  expect(sumBy(ROWS, 'code').map(({ value, calls }) => [value, calls])).toEqual([['RATE_LIMITED', 1]]);
  expect(totalOf(ROWS)).toMatchObject({ calls: 9, failures: 1, cost_usd: 0.75, max_ms: 50 });
  expect(totalOf([]).mean_ms).toBe(0);
});
