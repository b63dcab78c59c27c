import { describe, expect, it } from 'vitest';
import { FairQueue } from './fair-queue.js';

describe('fair queue', () => {
  it('takes turns between owners and keeps the order of each', () => {
    const queue = new FairQueue<string>();
    for (const item of ['a1', 'a2', 'a3', 'b1', 'c1', 'b2']) queue.push(item.charAt(0), item);
    expect([queue.remove('b', 'b1'), queue.remove('b', 'b1'), queue.waiting('a')]).toEqual([true, false, 3]);
    const taken = [queue.shift(), queue.shift(), queue.shift()];
    queue.push('d', 'd1');
    queue.push('c', 'c2');
    while (['a', 'b', 'c', 'd'].some((owner) => queue.waiting(owner) > 0)) taken.push(queue.shift());
    // d was never served; c was, after a.
    expect(taken).toEqual(['a1', 'b2', 'c1', 'd1', 'a2', 'c2', 'a3']);
    expect(queue.shift()).toBeUndefined();
    queue.push('a', 'x');
    expect([queue.drain(), queue.drain()]).toEqual([['x'], []]);
  });

  it('passes over owners that may not run, which keep their turn', () => {
    const queue = new FairQueue<string>();
    for (const item of ['a1', 'b1', 'b2']) queue.push(item.charAt(0), item);
    expect(queue.shift((owner) => owner !== 'a')).toBe('b1');
    expect(queue.shift(() => false)).toBeUndefined();
    expect([queue.shift(), queue.shift()]).toEqual(['a1', 'b2']);
  });
});
