import type { Fleet, SlotStatus } from '@toolfleet/client';
import { useRoute } from '../api/queries.js';
import { count, duration } from '../format.js';
import { Badge, Card, Empty, Facts, Head, Loaded, type Tone } from '../ui/components.js';
import { LimitMeter } from '../ui/meters.js';

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
  const [tone, load] = stateOf(queue);
  return (
    <Card title={queue.queue} label={`Queue ${queue.queue}`} aside={<Badge tone={tone}>{load}</Badge>}>
      <Facts narrow facts={STATES.map(([state, text]) => [text, count(queue.jobs[state] ?? 0)] as const)} />
      <p className="small">
        Oldest waiting job: <strong>{queue.oldest_age_ms > 0 ? duration(queue.oldest_age_ms) : 'none waits'}</strong>
      </p>
      <SlotMeter
        slots={queue.slots}
        label={`Slots of ${queue.queue}`}
        of={`${count(queue.workers.length)} ${queue.workers.length === 1 ? 'worker' : 'workers'}`}
      />
    </Card>
  );
}

function stateOf({ slots, oldest_age_ms: ageMs }: Fleet['queues'][number]): [Tone, string] {
  if (slots.total === 0) return ['bad', 'no worker'];
  return ageMs > OLD_MS ? ['bad', 'waits long'] : ['good', 'keeps up'];
}

const SlotMeter = ({ slots: { busy, total }, label, of }: { slots: SlotStatus; label: string; of: string }) => (
  <LimitMeter
    text={of}
    limit={`${count(busy)} of ${count(total)} slots busy`}
    used={busy}
    total={total}
    label={label}
  />
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
