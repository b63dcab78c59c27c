import { SystemClock } from '@toolfleet/resilience';
import { createMetrics } from '@toolfleet/telemetry';
import { startRedis } from '@toolfleet/testing';
import { expect, it } from 'vitest';
import { RedisMemory } from './redis-memory.js';

it('shows the used and maximum memory of Redis', async () => {
  const server = await startRedis();
  const metrics = createMetrics({ version: '0', revision: 'test' });
  const memory = new RedisMemory(server.client(), metrics, new SystemClock());
  const figure = async (name: string) =>
    Number(
      new RegExp(`^toolfleet_redis_memory_${name}_bytes(?:\\{[^}]*\\})? (\\S+)$`, 'm').exec(
        await metrics.scrape(),
      )?.[1],
    );
  try {
    await memory.start();
    const [before, machine] = [await figure('used'), await figure('max')];
    expect(before).toBeGreaterThan(100_000);
    expect(machine, 'no maxmemory: the memory of the machine').toBeGreaterThan(before);
    await server.client().config('SET', 'maxmemory', '64mb');
    await server.client().set('large', 'x'.repeat(8_000_000));
    await memory.refresh();
    expect(await figure('used')).toBeGreaterThan(before + 8_000_000);
    expect(await figure('max')).toBe(64 * 1024 * 1024);
  } finally {
    await memory.stop();
    await server.stop();
  }
});
