import { expect, it } from 'vitest';
import type { Json } from '@toolfleet/contracts';
import { jsonChanges } from './json-changes.js';

it.each<[Json, Json, object[]]>([
  [{ a: [1, { b: null }] }, { a: [1, { b: null }] }, []],
  [1, '1', [{ path: '', before: 1, after: '1' }]],
  [[1], { 0: 1 }, [{ path: '', before: [1], after: { 0: 1 } }]],
  [
    { same: 1, gone: 2, deep: { 'a/b': [1, 2] } },
    { same: 1, new: 3, deep: { 'a/b': [1, 5, 6] } },
    [
      { path: '/gone', before: 2 },
      { path: '/deep/a~1b/1', before: 2, after: 5 },
      { path: '/deep/a~1b/2', after: 6 },
      { path: '/new', after: 3 },
    ],
  ],
])('%j became %j', (before, after, changes) => {
  expect(jsonChanges(before, after)).toEqual(changes);
});

it('lists at most 100, goes into no depth that ends the process, and leaves out what is unknown', () => {
  const many = (start: number) => Array.from({ length: 1_000 }, (_, index) => start + index);
  expect(jsonChanges(many(0), many(1))).toHaveLength(100);
  const deep = (end: Json) => Array.from({ length: 50_000 }).reduce<Json>((value) => [value], end);
  expect(jsonChanges(deep(1), deep(2))).toHaveLength(1);
  expect(jsonChanges({ a: '*', b: 1 }, { a: 5, b: 2 }, (value) => value === '*')).toEqual([
    { path: '/b', before: 1, after: 2 },
  ]);
});
