import { describe, expect, it } from 'vitest';
import { InFlight, InFlightMap } from './in-flight.js';

describe('InFlight', () => {
  it('has its members in order until they are removed', () => {
    const calls = new InFlight<{ id: number }>();
    const [first, second] = [calls.add({ id: 1 }), calls.add({ id: 2 })];
    expect([...calls]).toEqual([{ id: 1 }, { id: 2 }]);
    first();
    first();
    expect([calls.size, ...calls]).toEqual([1, { id: 2 }]);
    second();
    expect([calls.size, ...calls]).toEqual([0]);
  });

  it('has a member as often as it was added', () => {
    const calls = new InFlight<object>();
    const call = {};
    const remove = calls.add(call);
    calls.add(call);
    remove();
    expect([...calls]).toEqual([call]);
  });

  it('may be changed while it is read', () => {
    const calls = new InFlight<{ id: number; end: () => void }>();
    const add = (id: number): void => {
      const call = { id, end: (): void => undefined };
      call.end = calls.add(call);
    };
    for (const id of [1, 2, 3]) add(id);
    const seen: number[] = [];
    for (const { id, end } of calls) {
      seen.push(id);
      end();
      if (id === 1) add(4);
    }
    expect(seen).toEqual([1, 2, 3, 4]);
    expect(calls.size).toBe(0);
  });
});

describe('InFlightMap', () => {
  it('finds members by key until they are removed', () => {
    const calls = new InFlightMap<string, { id: number }>();
    calls.set('a', { id: 1 });
    calls.set('b', { id: 2 });
    calls.set('a', { id: 3 });
    expect([calls.size, calls.get('a'), ...calls.values()]).toEqual([2, { id: 3 }, { id: 2 }, { id: 3 }]);
    calls.delete('a');
    calls.delete('a');
    expect([calls.get('a'), calls.get('b')]).toEqual([undefined, { id: 2 }]);
    calls.clear();
    expect([calls.size, calls.get('b')]).toEqual([0, undefined]);
  });
});
