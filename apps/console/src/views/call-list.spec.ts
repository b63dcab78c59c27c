import { expect, it } from 'vitest';
import type { FinishedCall } from '@toolfleet/client';
import { MAX_KEPT, toRows, withNewCalls, withOlderCalls } from './call-list.js';

const call = (index: number, more: Partial<FinishedCall> = {}) =>
  ({ cursor: String(index), call_id: `c${index}`, ...more }) as FinishedCall;
const NONE = { calls: [], next: undefined };
const idsOf = ({ calls }: { calls: readonly FinishedCall[] }) => calls.map(({ call_id: id }) => id);

it('keeps the newest calls first, each once, and loads again what is beyond the limit', () => {
  const first = withNewCalls(NONE, [call(1), call(2)]);
  expect(idsOf(first)).toEqual(['c2', 'c1']);
  const second = withNewCalls(first, [call(2), call(3)]);
  expect(idsOf(second)).toEqual(['c3', 'c2', 'c1']);
  expect(withNewCalls(second, [call(3)])).toBe(second);
  const again = withNewCalls(second, [{ ...call(2), cursor: '4', attempts: 2 }]);
  expect(again.calls.map(({ call_id: id, cursor }) => [id, cursor])).toEqual([
    ['c2', '4'],
    ['c3', '3'],
    ['c1', '1'],
  ]);
  const many = Array.from({ length: MAX_KEPT }, (_, index) => call(index + 10));
  const trimmed = withNewCalls(second, many);
  expect(trimmed.calls).toHaveLength(MAX_KEPT);
  expect(trimmed.next).toBe('10');
});

it('adds older calls at the end, each once', () => {
  const known = { calls: [call(9), call(8)], next: '8' };
  const pages = withOlderCalls(known, { calls: [call(6), call(7), call(8)], next: '6' });
  expect(idsOf(pages)).toEqual(['c9', 'c8', 'c7', 'c6']);
  expect(pages.next).toBe('6');
  expect(withOlderCalls(pages, { calls: [] }).next).toBeUndefined();
});

it('lists the calls of a program below it, and alone when the program is not listed', () => {
  const calls = [
    call(9, { parent_call_id: 'c1' }),
    call(8),
    call(7),
    call(6, { parent_call_id: 'c7' }),
    call(5, { parent_call_id: 'c6' }),
    call(4, { parent_call_id: 'c7' }),
  ];
  expect(toRows(calls).map(({ call: { call_id: id }, depth }) => [id, depth])).toEqual([
    ['c9', 0],
    ['c8', 0],
    ['c7', 0],
    ['c4', 1],
    ['c6', 1],
    ['c5', 2],
  ]);
});
