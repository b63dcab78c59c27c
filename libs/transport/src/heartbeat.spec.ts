import { expect, it } from 'vitest';
import type { FleetStatus, ServiceFault } from '@toolfleet/contracts/fleet';
import { FakeClock } from '@toolfleet/testing';
import { Heartbeat } from './heartbeat.js';

it('publishes its state at once and every five seconds, and nothing while NATS is disconnected', async () => {
  const clock = new FakeClock();
  const published: FleetStatus[] = [];
  const nats = {
    connected: true,
    publish: (_subject: string, body: unknown) => void published.push(body as FleetStatus),
  };
  let busy = 1;
  const breakers = Array.from({ length: 150 }, (_, index) => ({
    key: `https://host-${index}`,
    state: 'open' as const,
    open_for_ms: index,
  }));
  let changed = (): void => undefined;
  let faults: ServiceFault[] = [];
  const heartbeat = new Heartbeat(nats, clock, {
    service: 'mcp-executor',
    slots: () => ({ busy, total: 4 }),
    breakers: () => breakers,
    faults: { list: () => faults, onChange: (listener) => (changed = listener) },
  });
  await heartbeat.start();
  expect(published).toMatchObject([{ service: 'mcp-executor', slots: { busy: 1, total: 4 }, faults: [] }]);
  expect(published[0]!.breakers).toHaveLength(100);
  expect(published[0]!.breakers[0]!.open_for_ms).toBe(149);
  busy = 3;
  clock.advance(5_000);
  expect(published.map(({ slots }) => slots?.busy)).toEqual([1, 3]);
  expect(published[1]!.instance).toBe(published[0]!.instance);
  faults = [{ subject: 'policy', message: 'does not parse', since: '2026-01-31T09:30:00.000Z' }];
  changed();
  expect(published.at(-1)).toMatchObject({ faults: [{ subject: 'policy' }] });
  nats.connected = false;
  clock.advance(5_000);
  await heartbeat.stop();
  nats.connected = true;
  clock.advance(60_000);
  expect(published).toHaveLength(3);
});
