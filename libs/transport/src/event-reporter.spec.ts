import { fleetEvent, type FleetEvent } from '@toolfleet/contracts/events';
import { eventually, FakeClock } from '@toolfleet/testing';
import { describe, expect, it } from 'vitest';
import { EventReporter } from './event-reporter.js';

const opened = (key: string): FleetEvent =>
  fleetEvent({
    kind: 'breaker.opened',
    tenant_id: 'acme',
    subject: key,
    state: '1',
    at: 1,
    data: { key, service: 'gateway', open_until: '2026-11-21T12:00:00.000Z' },
  });

describe('EventReporter', () => {
  it('sends each event until it is confirmed, and not again', async () => {
    const clock = new FakeClock();
    const dropped: object[] = [];
    let isUp = false;
    const sent: string[] = [];
    const nats = {
      ask: async (_: string, body: unknown): Promise<never> => {
        if (!isUp) throw new Error('no responders');
        sent.push(...(body as { events: FleetEvent[] }).events.map(({ id }) => id));
        return {} as never;
      },
    };
    const reporter = new EventReporter({
      nats: nats as never,
      clock,
      logger: { warn: (fields) => dropped.push(fields) },
    });
    reporter.report(opened('first'));
    await eventually('a timer', async () => clock.pending === 1);
    for (let index = 0; index < 1_000; index += 1) reporter.report(opened(`tool${index}`));
    expect(dropped).toEqual([{ event_id: opened('first').id, kind: 'breaker.opened' }]);
    isUp = true;
    clock.advance(1_000);
    await eventually('all are sent', async () => sent.length === 1_000);
    reporter.report(opened('tool7'));
    reporter.report(opened('last'));
    await reporter.drain();
    expect(sent).toHaveLength(1_001);
    expect(sent.at(-1)).toBe(opened('last').id);
  });
});
