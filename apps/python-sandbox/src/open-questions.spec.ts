import { expect, it, vi } from 'vitest';
import { OpenQuestions } from './open-questions.js';

const question = (n: number) => ({ n, op: 'call' });

it('a program waits for people when it is blocked and all of its open calls do, and not before', () => {
  const onWaits = vi.fn();
  const open = new OpenQuestions(onWaits);
  for (const n of [1, 2, 3]) open.asked(n);
  open.blocked(0);
  open.waits(1, question(1));
  open.waits(3, question(3));
  expect(onWaits).not.toHaveBeenCalled(); // 2 runs
  open.answered(2);
  open.asked(4);
  open.waits(4, question(4));
  expect(onWaits).not.toHaveBeenCalled(); // it got an answer, and may ask for more
  open.blocked(0);
  expect(onWaits).not.toHaveBeenCalled(); // this was before the answer
  open.blocked(1);
  expect(onWaits).toHaveBeenCalledExactlyOnceWith([question(1), question(3), question(4)]);
});

it('a program that begins again has no open calls', () => {
  const onWaits = vi.fn();
  const open = new OpenQuestions(onWaits);
  open.asked(1);
  open.waits(1, question(1));
  open.reset();
  open.asked(1);
  open.blocked(0);
  expect(onWaits).not.toHaveBeenCalled();
});
