import { describe, expect, it } from 'vitest';
import { Turns } from './turns.js';

describe('Turns', () => {
  it('runs work of one key in the order of asking, and of other keys at once', async () => {
    const turns = new Turns();
    const seen: string[] = [];
    const first = Promise.withResolvers<void>();
    const one = turns.take('a', () => first.promise.then(() => seen.push('first')));
    const two = turns.take('a', async () => seen.push('second'));
    await turns.take('b', async () => seen.push('other'));
    first.resolve();
    await Promise.all([one, two]);
    expect(seen).toEqual(['other', 'first', 'second']);
  });

  it('goes on after work that failed, and tells only its asker', async () => {
    const turns = new Turns();
    const failed = turns.take('a', () => Promise.reject(new Error('no')));
    const next = turns.take('a', async () => 'done');
    await expect(failed).rejects.toThrow('no');
    expect(await next).toBe('done');
  });
});
