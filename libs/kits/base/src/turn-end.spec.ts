import { expect, it } from 'vitest';
import { atTurnEnd } from './turn-end.js';

const turn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

it('runs the work of a turn at its end, in its order, and what is added meanwhile in the same pass', async () => {
  const done: string[] = [];
  atTurnEnd(() => {
    done.push('first');
    atTurnEnd(() => done.push('added'));
  });
  await Promise.resolve();
  atTurnEnd(() => done.push('second'));
  expect(done).toEqual([]);
  await turn();
  expect(done).toEqual(['first', 'second', 'added']);
  atTurnEnd(() => done.push('next turn'));
  await turn();
  expect(done.at(-1)).toBe('next turn');
});

it('runs the others when one throws', async () => {
  const uncaught: unknown[] = [];
  const listeners = process.listeners('uncaughtException');
  process.removeAllListeners('uncaughtException');
  process.once('uncaughtException', (error) => uncaught.push(error));
  const done: string[] = [];
  const failure = new Error('failed');
  atTurnEnd(() => {
    throw failure;
  });
  atTurnEnd(() => done.push('other'));
  await turn();
  await turn();
  for (const listener of listeners) process.on('uncaughtException', listener);
  expect(done).toEqual(['other']);
  expect(uncaught).toEqual([failure]);
});
