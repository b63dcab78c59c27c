import type { Fleet } from '@toolfleet/client';
import { useRoute } from '../api/queries.js';
import { count, dateTime } from '../format.js';
import { Badge, Empty, Head, Loaded } from '../ui/components.js';

const EVERY_MS = 10_000;
const MARK_EVERY_MS = 30_000;

/** Faults in configuration and policies of running services. */
export function FaultsView() {
  const query = useRoute('GET /api/v1/fleet', {}, { everyMs: EVERY_MS });
  return (
    <>
      <Head
        title="Faults"
        about="Mistakes in configuration and policies, until they are corrected. The services work on with what they had."
        refreshes
      />
      <Loaded query={query}>
        {({ faults }) =>
          faults.length === 0 ? (
            <Empty>No service reports a fault.</Empty>
          ) : (
            <ul className="stack">
              {faults.map((fault) => (
                <Fault key={`${fault.service} ${fault.subject} ${fault.message}`} fault={fault} />
              ))}
            </ul>
          )
        }
      </Loaded>
    </>
  );
}

const Fault = ({ fault }: { fault: Fleet['faults'][number] }) => (
  <li className="card stack tight">
    <span className="row spread">
      <h2>{fault.subject}</h2>
      <Badge>{fault.service}</Badge>
    </span>
    <p className="wrap">{fault.message}</p>
    <p className="small soft">
      since {dateTime(fault.since)}, reported by {count(fault.instances)}{' '}
      {fault.instances === 1 ? 'process' : 'processes'}
    </p>
  </li>
);

/** Number of faults; nothing when there are none. */
export function FaultsMark() {
  const faults = useRoute('GET /api/v1/fleet', {}, { everyMs: MARK_EVERY_MS }).data?.faults.length ?? 0;
  return faults === 0 ? null : <Badge tone="bad">{faults}</Badge>;
}
