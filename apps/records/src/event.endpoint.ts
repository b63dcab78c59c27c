import { ToolError } from '@toolfleet/contracts';
import { mayReport, RECORDS_EVENT, type FleetEvent, type RecordsEvent } from '@toolfleet/contracts/events';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import type { ServiceHost } from '@toolfleet/service';
import { endpoint } from '@toolfleet/service/nats';
import { STORE_UNAVAILABLE, type RecordedCallStore } from './call-store.js';

/**
 * `records.event.<service>`: events of other services. The broker lets only that service publish there, so a compromised one can report
 * neither the events of calls and approvals nor another service's. A message with an event that the service may not report is counted,
 * logged and refused as PERMISSION_DENIED; none of its events is stored.
 */
export const eventEndpoint = (store: RecordedCallStore, { clock, logger, metrics }: ServiceHost) =>
  endpoint(
    `${SUBJECTS.recordsEvent}.*`,
    async (message: RecordsEvent, { subject }) => {
      const events = message.events as FleetEvent[];
      const service = subject.slice(SUBJECTS.recordsEvent.length + 1);
      const forged = events.find((event) => !mayReport(service, event));
      if (forged) {
        const { kind, tenant_id } = forged;
        metrics.eventsRefused.inc({ kind });
        logger.error({ reported_by: service, kind, tenant_id }, 'a service reported an event that it may not');
        throw new ToolError('PERMISSION_DENIED', { message: `${service} may not report this ${kind}` });
      }
      return { stored: await store.events.add(events, clock.now()) };
    },
    { schema: RECORDS_EVENT, unavailable: STORE_UNAVAILABLE },
  );
