import { describe, expect, it } from 'vitest';
import { KeyedMutex } from './concurrency.js';

describe('KeyedMutex', () => {
  it('runs work of one key in the order of the calls, and of other keys concurrently', async () => {
    const turns = new KeyedMutex();
    const seen: string[] = [];
    const first = Promise.withResolvers<void>();
    const one = turns.run('a', () => first.promise.then(() => seen.push('first')));
    const two = turns.run('a', async () => seen.push('second'));
    await turns.run('b', async () => seen.push('other'));
    first.resolve();
    await Promise.all([one, two]);
    expect(seen).toEqual(['other', 'first', 'second']);
  });

  it('continues after work that failed, and rejects only its caller', async () => {
    const turns = new KeyedMutex();
    const failed = turns.run('a', () => Promise.reject(new Error('no')));
    const next = turns.run('a', async () => 'done');
    await expect(failed).rejects.toThrow('no');
    expect(await next).toBe('done');
  });
});
