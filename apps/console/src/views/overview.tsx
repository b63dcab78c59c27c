import type { Budget } from '@toolfleet/client';
import { useRoute } from '../api/queries.js';
import { count } from '../format.js';
import { replacePlace, toAddress, toFilteredAddress, usePlace } from '../router.js';
import { useSigned } from '../session.js';
import { Head, Loaded } from '../ui/components.js';
import { BudgetCards } from './budgets.js';
import { CallFigures, Figure, PeriodChoice, toPeriod } from './call-figures.js';
import { useWaitingApprovals } from './quarantine.js';
import { useCallsToDecide } from './waiting-calls.js';

const EVERY_MS = 30_000;

/** Recent calls, and tasks that need attention. Every figure leads to its calls. */
export function OverviewView() {
  const { me } = useSigned();
  const { filter } = usePlace();
  const query = useRoute('GET /api/v1/budgets', {}, { everyMs: EVERY_MS });
  return (
    <>
      <Head title="Overview" about={me.operator ? 'Calls of every tenant.' : `Calls of ${me.tenant_id}.`}>
        <PeriodChoice
          value={toPeriod(filter['from'])}
          onChange={(from) => replacePlace(toFilteredAddress('overview', { from }))}
        />
      </Head>
      <Attention />
      <CallFigures
        period={toPeriod(filter['from'])}
        by={me.operator ? ['tool', 'tenant', 'user', 'code'] : ['tool', 'user', 'code']}
      />
      <section className="stack" aria-labelledby="budgets">
        <h2 id="budgets">
          <a href={toAddress('budgets')}>Budgets of {me.tenant_id}</a>
        </h2>
        <Loaded query={query}>{({ budgets }) => <BudgetCards budgets={budgets.filter(isNotable)} />}</Loaded>
      </section>
    </>
  );
}

/** The overview shows budgets of users and keys from this part of their limit on. */
const NEARLY_SPENT = 0.8;

/** Budgets of the whole tenant, and nearly spent ones of users and keys. */
function isNotable({ subject, limit_usd: usd, spent_usd: spent, limit_tokens: tokens, spent_tokens: used }: Budget) {
  if (subject !== 'user' && subject !== 'key') return true;
  return (usd !== null && spent >= usd * NEARLY_SPENT) || (tokens !== null && used >= tokens * NEARLY_SPENT);
}

/** Calls and tools to decide on; for operators, also faults and waiting jobs. */
function Attention() {
  const { me } = useSigned();
  const waiting = useWaitingApprovals();
  const calls = useCallsToDecide();
  return (
    <div className="figure-cards">
      {calls !== undefined && (
        <Figure
          label="Calls that wait for people: all, for you"
          value={`${count(calls.all)}, ${count(calls.own)}`}
          to={toAddress('approvals')}
        />
      )}
      <Figure label="Changed tools that wait for approval" value={count(waiting)} to={toAddress('quarantine')} />
      {me.operator && <FleetFigures />}
    </div>
  );
}

function FleetFigures() {
  const { data } = useRoute('GET /api/v1/fleet', {}, { everyMs: EVERY_MS });
  if (!data) return null;
  const jobs = (states: readonly string[]) =>
    data.queues.reduce((sum, queue) => sum + states.reduce((part, state) => part + (queue.jobs[state] ?? 0), 0), 0);
  return (
    <>
      <Figure label="Faults in configuration" value={count(data.faults.length)} to={toAddress('faults')} />
      <Figure
        label="Calls in the background: running, waiting"
        value={`${count(jobs(['active']))}, ${count(jobs(['wait', 'prioritized', 'delayed']))}`}
        to={toAddress('queues')}
      />
    </>
  );
}
