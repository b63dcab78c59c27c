import { expect, it } from 'vitest';
import type { FleetStatus } from '@toolfleet/contracts/fleet';
import { FakeClock } from '@toolfleet/testing';
import { Heartbeat } from './status-beacon.js';

it('tells its state at once and every five seconds, and nothing while NATS is away', async () => {
  const clock = new FakeClock();
  const told: FleetStatus[] = [];
  const nats = { connected: true, publish: (_subject: string, body: unknown) => void told.push(body as FleetStatus) };
  let busy = 1;
  const breakers = Array.from({ length: 150 }, (_, index) => ({
    key: `https://host-${index}`,
    state: 'open' as const,
    open_for_ms: index,
  }));
  const beacon = new Heartbeat(nats, clock, {
    service: 'mcp-executor',
    slots: () => ({ busy, total: 4 }),
    breakers: () => breakers,
  });
  await beacon.start();
  expect(told).toMatchObject([{ service: 'mcp-executor', slots: { busy: 1, total: 4 } }]);
  expect(told[0]!.breakers).toHaveLength(100);
  expect(told[0]!.breakers[0]!.open_for_ms).toBe(149);
  busy = 3;
  clock.advance(5_000);
  expect(told.map(({ slots }) => slots?.busy)).toEqual([1, 3]);
  expect(told[1]!.instance).toBe(told[0]!.instance);
  nats.connected = false;
  clock.advance(5_000);
  await beacon.stop();
  nats.connected = true;
  clock.advance(60_000);
  expect(told).toHaveLength(2);
});
