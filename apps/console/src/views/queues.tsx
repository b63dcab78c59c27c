import type { Fleet, SlotStatus } from '@toolfleet/client';
import { useRoute } from '../api/queries.js';
import { count, duration } from '../format.js';
import { Badge, Card, Empty, Facts, Head, Loaded } from '../ui/components.js';
import { Meter } from '../ui/meters.js';

const EVERY_MS = 3_000;
/** A job that waits longer than this raises the alert QueueAgeHigh. */
const OLD_MS = 30_000;
const STATES = [
  ['wait', 'waiting'],
  ['prioritized', 'in line by tenant'],
  ['active', 'running'],
  ['delayed', 'delayed'],
  ['completed', 'done, kept'],
  ['failed', 'failed, kept'],
] as const;

/** Queues and workers of the whole fleet. */
export function QueuesView() {
  const query = useRoute('GET /api/v1/fleet', {}, { everyMs: EVERY_MS });
  return (
    <>
      <Head title="Queues and workers" about="The whole fleet, refreshed every few seconds." refreshes />
      <Loaded query={query}>
        {(fleet) => (
          <>
            <div className="cards">
              {fleet.queues.map((queue) => (
                <QueueCard key={queue.queue} queue={queue} />
              ))}
            </div>
            <Card title="Executors over NATS">
              <Executors executors={fleet.executors} />
            </Card>
          </>
        )}
      </Loaded>
    </>
  );
}

function QueueCard({ queue }: { queue: Fleet['queues'][number] }) {
  const isOld = queue.oldest_age_ms > OLD_MS;
  return (
    <section className="card stack" aria-label={`Queue ${queue.queue}`}>
      <div className="row spread">
        <h2>{queue.queue}</h2>
        {queue.slots.total === 0 ? (
          <Badge tone="bad">no worker</Badge>
        ) : isOld ? (
          <Badge tone="bad">waits long</Badge>
        ) : (
          <Badge tone="good">keeps up</Badge>
        )}
      </div>
      <Facts narrow facts={STATES.map(([state, text]) => [text, count(queue.jobs[state] ?? 0)] as const)} />
      <p className="small">
        Oldest waiting job: <strong>{queue.oldest_age_ms > 0 ? duration(queue.oldest_age_ms) : 'none waits'}</strong>
      </p>
      <SlotMeter
        slots={queue.slots}
        label={`Slots of ${queue.queue}`}
        of={`${count(queue.workers.length)} ${queue.workers.length === 1 ? 'worker' : 'workers'}`}
      />
    </section>
  );
}

const SlotMeter = ({ slots, label, of }: { slots: SlotStatus; label: string; of: string }) => (
  <div className="stack tight">
    <span className="row spread small">
      <span>{of}</span>
      <span className="numbers">
        {count(slots.busy)} of {count(slots.total)} slots busy
      </span>
    </span>
    <Meter used={slots.busy} total={slots.total} label={label} />
  </div>
);

function Executors({ executors }: { executors: Fleet['executors'] }) {
  const byService = Map.groupBy(executors, ({ service }) => service);
  if (byService.size === 0) return <Empty>No executor has reported yet; they report every 5 seconds.</Empty>;
  return (
    <ul className="stack">
      {[...byService].map(([service, processes]) => (
        <li key={service} className="stack tight">
          <h3>{service}</h3>
          <SlotMeter
            label={`Slots of ${service}`}
            of={`${count(processes.length)} ${processes.length === 1 ? 'process' : 'processes'}`}
            slots={{
              busy: processes.reduce((sum, { slots }) => sum + slots.busy, 0),
              total: processes.reduce((sum, { slots }) => sum + slots.total, 0),
            }}
          />
        </li>
      ))}
    </ul>
  );
}
