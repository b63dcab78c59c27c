import { expect, it } from 'vitest';
import type { FinishedCall } from '@toolfleet/client';
import { filterCalls, MOST_KEPT, newestCursor, withCalls } from './live-calls.js';

const call = (index: number, more: Partial<FinishedCall> = {}) =>
  ({
    cursor: `${index}-0`,
    call_id: `c${index}`,
    tool: 'calculator',
    user_id: 'ann',
    tenant_id: 'acme',
    status: 'success',
    door: 'http',
    ...more,
  }) as FinishedCall;

it('keeps the newest calls first, each once, up to the limit', () => {
  const first = withCalls([], [call(1), call(2)]);
  expect(first.map(({ call_id: id }) => id)).toEqual(['c2', 'c1']);
  const second = withCalls(first, [call(2), call(3)]);
  expect(second.map(({ call_id: id }) => id)).toEqual(['c3', 'c2', 'c1']);
  expect(newestCursor(second)).toBe('3-0');
  expect(withCalls(second, [call(3)])).toBe(second);
  const again = withCalls(second, [{ ...call(2), cursor: '4-0', attempts: 2 }]);
  expect(again.map(({ call_id: id, cursor }) => [id, cursor])).toEqual([
    ['c2', '4-0'],
    ['c3', '3-0'],
    ['c1', '1-0'],
  ]);
  const many = Array.from({ length: MOST_KEPT + 50 }, (_, index) => call(index + 10));
  expect(withCalls(second, many)).toHaveLength(MOST_KEPT);
});

it('finds calls by text, status and entry point', () => {
  const calls = [
    call(1),
    call(2, { status: 'refused', code: 'RATE_LIMITED' }),
    call(3, { door: 'mcp', trace_id: 'abcd' }),
  ];
  const found = (filter: object) =>
    filterCalls(calls, { text: '', status: '', door: '', ...filter }).map(({ call_id: id }) => id);
  expect(found({})).toHaveLength(3);
  expect(found({ text: 'rate_lim' })).toEqual(['c2']);
  expect(found({ text: 'ABCD' })).toEqual(['c3']);
  expect(found({ status: 'success', door: 'http' })).toEqual(['c1']);
});
