import { describe, expect, it } from 'vitest';
import { VectorList } from './vector-list.js';

/** Repeatable numbers from -1 to 1. */
function numbers(seed: number, count: number): number[] {
  let state = seed;
  return Array.from({ length: count }, () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) | 0;
    return state / 2 ** 31;
  });
}
const unit = (values: number[]) => Float32Array.from(values, (value) => value / Math.hypot(...values));
const random = (seed: number) => unit(numbers(seed, 96));

describe('VectorList', () => {
  it('compares short lists exactly', () => {
    const list = new VectorList([unit([1, 0]), unit([1, 1]), unit([-1, 0])]);
    expect(list.nearest(unit([1, 0.1]), 2)).toEqual([0, 1]);
    expect(list.nearest(unit([1, 0, 0]), 1)).toHaveLength(1);
    expect(new VectorList([]).nearest(unit([1]), 3)).toEqual([]);
  });

  it('finds the nearest of many', () => {
    const vectors = Array.from({ length: 2_000 }, (_, index) => random(index * 7_919 + 1));
    const list = new VectorList(vectors);
    for (const target of [3, 777, 1_999]) {
      const noise = numbers(target, 96);
      const near = unit([...vectors[target]!].map((value, index) => value + 0.05 * noise[index]!));
      expect(list.nearest(near, 10)[0]).toBe(target);
      expect(list.nearest(near, 10)).toHaveLength(10);
    }
  });
});
