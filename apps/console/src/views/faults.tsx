import type { Fleet } from '@toolfleet/client';
import { useSigned } from '../session.js';
import { count, dateTime } from '../format.js';
import { Badge, Empty, Head, Loaded } from '../ui/components.js';
import { useQuery } from '../use-query.js';

const EVERY_MS = 10_000;
const MARK_EVERY_MS = 30_000;

/** Faults in configuration and policies of running services. */
export function FaultsView() {
  const { api } = useSigned();
  const query = useQuery('faults', api.fleet, EVERY_MS);
  return (
    <>
      <Head
        title="Faults"
        about="Mistakes in configuration and policies, until they are corrected. The services work on with what they had."
      >
        <button onClick={query.refresh}>Refresh</button>
      </Head>
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

function Fault({ fault }: { fault: Fleet['faults'][number] }) {
  return (
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
}

/** Number of faults; nothing when there are none. */
export function FaultsMark() {
  const { api } = useSigned();
  const faults = useQuery('number of faults', api.fleet, MARK_EVERY_MS).data?.faults.length ?? 0;
  return faults === 0 ? null : <Badge tone="bad">{faults}</Badge>;
}
