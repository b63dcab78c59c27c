import { eventId, type FleetEvent } from '@toolfleet/contracts/events';
import { eventually, FakeClock } from '@toolfleet/testing';
import { describe, expect, it } from 'vitest';
import { EventReporter } from './event-reporter.js';

const opened = (key: string): FleetEvent => ({
  kind: 'breaker.opened',
  tenant_id: 'acme',
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
      request: async (subject: string, body: unknown): Promise<never> => {
        if (!isUp) throw new Error('no responders');
        expect(subject).toBe('records.event.gateway');
        sent.push(...(body as { events: FleetEvent[] }).events.map(eventId));
        return {} as never;
      },
    };
    const reporter = new EventReporter({
      service: 'gateway',
      nats,
      clock,
      logger: { warn: (fields) => dropped.push(fields) },
    });
    reporter.report(opened('first'));
    await eventually('a timer', async () => clock.pending === 1);
    for (let index = 0; index < 1_000; index += 1) reporter.report(opened(`tool${index}`));
    expect(dropped).toEqual([{ event_id: eventId(opened('first')), kind: 'breaker.opened' }]);
    isUp = true;
    clock.advance(1_000);
    await eventually('all are sent', async () => sent.length === 1_000);
    reporter.report(opened('tool7'));
    reporter.report(opened('last'));
    await reporter.drain();
    expect(sent).toHaveLength(1_001);
    expect(sent.at(-1)).toBe(eventId(opened('last')));
  });
});
