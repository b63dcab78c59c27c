import { SystemClock } from '@toolfleet/resilience';
import { createMetrics } from '@toolfleet/telemetry';
import { eventually, startRedis } from '@toolfleet/testing';
import { expect, it } from 'vitest';
import { redisState } from './redis-state.js';

it('shows the memory of Redis and its replicas', async () => {
  const server = await startRedis();
  const metrics = createMetrics({ version: '0', revision: 'test' });
  const memory = redisState(server.client(), metrics, new SystemClock());
  const figure = async (name: string) =>
    Number(
      new RegExp(`^toolfleet_redis_memory_${name}_bytes(?:\\{[^}]*\\})? (\\S+)$`, 'm').exec(
        await metrics.scrape(),
      )?.[1],
    );
  try {
    await memory.run();
    const [before, machine] = [await figure('used'), await figure('max')];
    expect(before).toBeGreaterThan(100_000);
    expect(machine, 'no maxmemory: the memory of the machine').toBeGreaterThan(before);
    await server.client().config('SET', 'maxmemory', '64mb');
    await server.client().set('large', 'x'.repeat(8_000_000));
    await memory.run();
    expect(await figure('used')).toBeGreaterThan(before + 8_000_000);
    expect(await figure('max')).toBe(64 * 1024 * 1024);
    const value = async (name: string) =>
      new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)$`, 'm').exec(await metrics.scrape())?.[1];
    expect(await value('toolfleet_redis_replicas')).toBe('0');
    const replica = await startRedis({ replicaOf: server.port });
    try {
      await eventually('the replica is online', async () => {
        await memory.run();
        return (await value('toolfleet_redis_replicas')) === '1';
      });
      expect(Number(await value('toolfleet_redis_replica_lag_seconds'))).toBeLessThan(30);
    } finally {
      await replica.stop();
    }
    await eventually('it is missed', async () => {
      await memory.run();
      return (await value('toolfleet_redis_replicas')) === '0';
    });
  } finally {
    await memory.stop();
    await server.stop();
  }
});
