import { describe, expect, it } from 'vitest';
import { ShardSlots } from './shard-slots.js';

const [first, second, third] = [{ shard: 0 }, { shard: 1 }, { shard: 2 }];

describe('the slots of a worker with several shards', () => {
  it('are handed over in the order in which they were asked for', async () => {
    const slots = new ShardSlots(1);
    await slots.take(first);
    const order: string[] = [];
    const taken = [
      slots.take(second).then(() => order.push('second')),
      slots.take(first).then(() => order.push('first')),
    ];
    expect(slots.tryTake(third)).toBe(false);
    slots.give(first);
    await taken[0];
    expect(order).toEqual(['second']);
    slots.give(second);
    await taken[1];
    expect(order).toEqual(['second', 'first']);
    slots.give(first);
    expect(slots.tryTake(third)).toBe(true);
  });

  it('go to the shard that has the fewest', async () => {
    const slots = new ShardSlots(3);
    for (const taker of [first, first, second]) await slots.take(taker);
    const order: string[] = [];
    const waiting = [
      slots.take(second).then(() => order.push('second')),
      slots.take(third).then(() => order.push('third')),
    ];
    expect([slots.mayKeep(first), slots.mayKeep(second)]).toEqual([false, false]);
    slots.give(first);
    await waiting[1];
    expect(order).toEqual(['third']);
    expect([slots.mayKeep(first), slots.mayKeep(third)]).toEqual([true, true]);
  });

  it('are kept by the only shard that has jobs', async () => {
    const slots = new ShardSlots(2);
    await slots.take(first);
    await slots.take(first);
    void slots.take(first);
    expect(slots.mayKeep(first)).toBe(true);
  });

  it('are kept up to an even part while others wait', async () => {
    const slots = new ShardSlots(4);
    for (let index = 0; index < 4; index += 1) await slots.take(first);
    const waiting = [slots.take(second), slots.take(second)];
    expect(slots.mayKeep(first)).toBe(false);
    slots.give(first);
    expect(slots.mayKeep(first)).toBe(false);
    slots.give(first);
    await Promise.all(waiting);
    void slots.take(second);
    expect([slots.mayKeep(first), slots.mayKeep(second)]).toEqual([true, true]);
    void slots.take(third);
    expect([slots.mayKeep(first), slots.mayKeep(second)]).toEqual([false, false]);
  });

  it('go round when there are fewer than shards', async () => {
    const slots = new ShardSlots(1);
    await slots.take(first);
    void slots.take(second);
    expect(slots.mayKeep(first)).toBe(false);
  });

  it('are spare for a shard unless it has all of them', async () => {
    const slots = new ShardSlots(1);
    await slots.take(first);
    await slots.untilSpare(second);
    let isSpare = false;
    const spare = slots.untilSpare(first).then(() => (isSpare = true));
    await Promise.resolve();
    expect(isSpare).toBe(false);
    slots.give(first);
    expect(await spare).toBe(true);
  });
});
