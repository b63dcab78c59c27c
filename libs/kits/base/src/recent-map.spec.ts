import { describe, expect, it } from 'vitest';
import { RecentMap } from './recent-map.js';

const keysOf = (map: RecentMap<number, string>): number[] => map.entries().map(([key]) => key);

describe('RecentMap', () => {
  it('keeps at most its maximum, and what was used last', () => {
    const map = new RecentMap<number, string>({ max: 4 });
    for (let key = 0; key < 100; key += 1) {
      map.set(key, `value ${key}`);
      expect(map.get(0)).toBe('value 0');
      expect(map.size).toBeLessThanOrEqual(4);
      expect(map.peek(key)).toBe(`value ${key}`);
    }
    expect(keysOf(map).toSorted((a, b) => a - b)[0]).toBe(0);
    expect(map.peek(1)).toBeUndefined();
  });

  it('does not count a peek as a use', () => {
    const map = new RecentMap<number, string>({ max: 2 });
    map.set(1, 'one');
    for (const key of [2, 3, 4]) {
      map.peek(1);
      map.set(key, 'other');
    }
    expect(map.get(1)).toBeUndefined();
  });

  it('disposes each entry once when it is forgotten, deleted or cleared, and not when it is used or replaced', () => {
    const disposed: string[] = [];
    const map = new RecentMap<number, string>({ max: 4, dispose: (value, key) => disposed.push(`${key} ${value}`) });
    map.set(1, 'a');
    map.set(1, 'b');
    map.set(2, 'c');
    map.set(3, 'd');
    map.get(1);
    expect(disposed).toEqual([]);
    for (const key of [4, 5, 6]) map.set(key, 'e');
    expect(disposed).toEqual(['2 c', '3 d', '1 b']);
    map.delete(4);
    map.delete(4);
    map.clear();
    expect(disposed).toEqual(['2 c', '3 d', '1 b', '4 e', '5 e', '6 e']);
    expect(map.size).toBe(0);
  });
});
