import { Controller } from '@nestjs/common';
import { ToolError } from '@toolfleet/contracts';
import { mayReport, RECORDS_EVENT, type FleetEvent, type RecordsEvent } from '@toolfleet/contracts/events';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import { Clock } from '@toolfleet/resilience';
import type { ServiceHost } from '@toolfleet/service';
import { Endpoint, type EndpointContext } from '@toolfleet/transport';
import { RecordedCallStore, STORE_UNAVAILABLE } from './call-store.js';

/** Counts and logs events that a service reported and may not. */
export class RefusedEvents {
  constructor(private readonly host: Pick<ServiceHost, 'logger' | 'metrics'>) {}

  note(service: string, { kind, tenant_id }: FleetEvent): void {
    this.host.metrics.eventsRefused.inc({ kind });
    this.host.logger.error({ reported_by: service, kind, tenant_id }, 'a service reported an event that it may not');
  }
}

/**
 * `records.event.<service>`: events of other services. The broker lets only that service publish there, so a compromised one can report
 * neither the events of calls and approvals nor another service's.
 */
@Controller()
export class EventEndpoint {
  constructor(
    private readonly store: RecordedCallStore,
    private readonly refused: RefusedEvents,
    private readonly clock: Clock,
  ) {}

  /** @throws ToolError PERMISSION_DENIED: the service may not report one of the events; none is stored */
  @Endpoint(`${SUBJECTS.recordsEvent}.*`, { schema: RECORDS_EVENT, unavailable: STORE_UNAVAILABLE })
  async add(message: RecordsEvent, { subject }: EndpointContext) {
    const events = message.events as FleetEvent[];
    const service = subject.slice(SUBJECTS.recordsEvent.length + 1);
    const forged = events.find((event) => !mayReport(service, event));
    if (forged) {
      this.refused.note(service, forged);
      throw new ToolError('PERMISSION_DENIED', { message: `${service} may not report this ${forged.kind}` });
    }
    return { stored: await this.store.events.add(events, this.clock.now()) };
  }
}
