import { AsyncLocalStorage } from 'node:async_hooks';
import { describe, expect, it } from 'vitest';
import { SystemClock } from './clock.js';

const clock = new SystemClock();
/** Shorter timers are Node's own. */
const SHORTEST_MS = 200;

/** Sets timers and resolves, once all have fired, to their numbers in the order in which they did and to how early any was, in ms. */
async function fired(delays: readonly number[]): Promise<{ order: number[]; earlyMs: number }> {
  const order: number[] = [];
  let earlyMs = 0;
  const from = clock.monotonic();
  await Promise.all(
    delays.map(
      (delay, index) =>
        new Promise<void>((resolve) => {
          clock.after(delay, () => {
            order.push(index);
            earlyMs = Math.max(earlyMs, delay - (clock.monotonic() - from));
            resolve();
          });
        }),
    ),
  );
  return { order, earlyMs };
}

describe('timers that share a wheel', () => {
  it('fire in the order in which they are due, and not before', async () => {
    const { order, earlyMs } = await fired([SHORTEST_MS + 90, SHORTEST_MS, SHORTEST_MS + 45, SHORTEST_MS]);
    expect(order).toEqual([1, 3, 2, 0]);
    expect(earlyMs).toBe(0);
  });

  it('do not fire once they are cancelled, also by one of the same turn', async () => {
    const order: string[] = [];
    const cancel = clock.after(SHORTEST_MS, () => order.push('cancelled'));
    let cancelSecond = (): void => undefined;
    clock.after(SHORTEST_MS, () => cancelSecond());
    cancelSecond = clock.after(SHORTEST_MS, () => order.push('second'));
    cancel();
    cancel();
    await clock.sleep(2 * SHORTEST_MS);
    cancelSecond();
    expect(order).toEqual([]);
  });

  it('may set further ones', async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    clock.after(SHORTEST_MS, () => clock.after(SHORTEST_MS, resolve));
    await promise;
  });

  it('fire outside of the context of the call that set one', async () => {
    const storage = new AsyncLocalStorage<string>();
    const seen = await storage.run(
      'call',
      () => new Promise<string | undefined>((resolve) => clock.after(SHORTEST_MS, () => resolve(storage.getStore()))),
    );
    expect(seen).toBeUndefined();
  });
});
