import { setImmediate } from 'node:timers/promises';
import { FakeClock } from '@toolfleet/testing';
import { expect, test } from 'vitest';
import { CostlyTurns } from './costly-turns.js';

test('owners take turns, and the event loop rests after each piece for as long as the piece took', async () => {
  const clock = new FakeClock();
  const turns = new CostlyTurns(clock);
  const done: string[] = [];
  const work = async (owner: string, name: string, tookMs: number) => {
    await turns.next(owner);
    done.push(name);
    clock.suspend(tookMs);
  };
  const all = [work('a', 'a1', 1), work('a', 'a2', 30), work('a', 'a3', 0), work('b', 'b1', 40)];
  const settle = async () => {
    for (let turn = 0; turn < 10; turn += 1) await setImmediate();
  };
  await settle();
  // The first piece was brief; the second one is the other owner's.
  expect(done).toEqual(['a1', 'b1']);
  clock.advance(39);
  await settle();
  expect(done).toHaveLength(2);
  clock.advance(1);
  await settle();
  expect(done).toEqual(['a1', 'b1', 'a2']);
  clock.advance(30);
  await settle();
  expect(done).toEqual(['a1', 'b1', 'a2', 'a3']);
  await Promise.all(all);
});
