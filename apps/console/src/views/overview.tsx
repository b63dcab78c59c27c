import type { CallSum } from '@toolfleet/client';
import type { ReactNode } from 'react';
import { count, dateTime, duration, money } from '../format.js';
import { replacePlace, toAddress, toFilteredAddress, usePlace } from '../router.js';
import { useSigned } from '../session.js';
import { Empty, Head, Loaded, Segments } from '../ui/components.js';
import { useQuery } from '../use-query.js';
import { BudgetCards } from './budgets.js';
import { sumBy, totalOf, type ValueSum } from './call-sums.js';
import { toCallQuery } from './call-filter.js';
import { useWaitingApprovals } from './quarantine.js';

const EVERY_MS = 30_000;
const PERIODS = [
  ['1h', 'Hour', 60],
  ['24h', 'Day', 1_440],
  ['7d', 'Week', 10_080],
] as const;
type Period = (typeof PERIODS)[number][0];
/** Rows of each table; the list of calls has all. */
const MAX_ROWS = 8;

/** What happened lately and what needs attention. Every figure leads to its calls. */
export function OverviewView() {
  const { api, me } = useSigned();
  const { filter } = usePlace();
  const [period, , minutes] = PERIODS.find(([name]) => name === filter['from']) ?? PERIODS[0];
  const ask = (signal: AbortSignal) =>
    api.finishedCalls({ ...toCallQuery({ from: period }, Date.now()), group_by: 'tool,user,code', limit: 1 }, signal);
  const query = useQuery(`sums ${period}`, ask, EVERY_MS);
  return (
    <>
      <Head title="Overview" about={me.operator ? 'Calls of every tenant.' : `Calls of ${me.tenant_id}.`}>
        <Segments
          label="Period"
          value={period}
          onChange={(from: Period) => replacePlace(toFilteredAddress('overview', { from }))}
          options={PERIODS.map(([name, text]) => [name, text] as const)}
        />
      </Head>
      <Attention />
      <Loaded query={query}>
        {({ enabled, groups }) =>
          !enabled ? (
            <Empty>This fleet does not record calls: GATEWAY_CALL_SPOOL is 0.</Empty>
          ) : (
            <>
              <Sums rows={groups?.rows ?? []} period={period} minutes={minutes} />
              {groups?.since !== undefined && (
                <p className="soft small">
                  Only calls since {dateTime(groups.since)}: older ones are too many for one request.
                </p>
              )}
            </>
          )
        }
      </Loaded>
      <section className="stack" aria-labelledby="budgets">
        <h2 id="budgets">Budgets of {me.tenant_id}</h2>
        <Loaded query={useQuery('budgets', api.budgets, EVERY_MS)}>
          {(budgets) => <BudgetCards budgets={budgets} />}
        </Loaded>
      </section>
    </>
  );
}

/** What waits for the reader: approvals, and for operators faults and waiting jobs. */
function Attention() {
  const { me } = useSigned();
  const waiting = useWaitingApprovals();
  return (
    <div className="figure-cards">
      <Figure label="Changed tools that wait for approval" value={count(waiting)} to={toAddress('quarantine')} />
      {me.operator && <FleetFigures />}
    </div>
  );
}

function FleetFigures() {
  const { api } = useSigned();
  const { data } = useQuery('fleet', api.fleet, EVERY_MS);
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

function Figure({ label, value, to, more }: { label: string; value: string; to: string; more?: ReactNode }) {
  return (
    <a className="card tool" href={to}>
      <span className="soft small">{label}</span>
      <strong className="figure-value numbers">{value}</strong>
      {more !== undefined && <span className="soft small numbers">{more}</span>}
    </a>
  );
}

function Sums({ rows, period, minutes }: { rows: readonly CallSum[]; period: Period; minutes: number }) {
  const total = totalOf(rows);
  const toCalls = (filter: Record<string, string> = {}) => toFilteredAddress('calls', { from: period, ...filter });
  const tables = [
    ['tool', 'By tool', 'Tool'],
    ['user_id', 'By user', 'User'],
    ['code', 'By error code', 'Code'],
  ] as const;
  return (
    <>
      <div className="figure-cards">
        <Figure
          label="Calls"
          value={count(total.calls)}
          more={`${perMinute(total.calls, minutes)} a minute`}
          to={toCalls()}
        />
        <Figure
          label="Not successful"
          value={count(total.failures)}
          more={`${perMinute(total.failures, minutes)} a minute, ${share(total.failures, total.calls)} of all`}
          to={toCalls({ status: 'failure' })}
        />
        <Figure label="Cost" value={money(total.cost_usd)} to={toAddress('budgets')} />
        <Figure
          label="Mean duration"
          value={duration(total.mean_ms)}
          more={`maximum ${duration(total.max_ms)}`}
          to={toCalls({ slower_than_ms: String(Math.ceil(total.mean_ms)) })}
        />
      </div>
      {tables.map(([member, title, head]) => (
        <SumTable
          key={member}
          title={title}
          head={head}
          sums={sumBy(rows, member)}
          toCalls={(value) => toCalls({ [member]: value })}
        />
      ))}
    </>
  );
}

const perMinute = (calls: number, minutes: number): string => String(Number((calls / minutes).toPrecision(2)));
const share = (part: number, all: number): string => `${all === 0 ? 0 : Math.round((part / all) * 100)} %`;

function SumTable({
  title,
  head,
  sums,
  toCalls,
}: {
  title: string;
  head: string;
  sums: readonly ValueSum[];
  toCalls: (value: string) => string;
}) {
  if (sums.length === 0) return null;
  return (
    <section className="card stack" aria-label={title}>
      <h2>{title}</h2>
      <table className="table">
        <thead>
          <tr>
            <th scope="col">{head}</th>
            {['Calls', 'Not successful', 'Mean', 'Maximum', 'Cost'].map((name) => (
              <th key={name} scope="col" className="figure">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {sums.slice(0, MAX_ROWS).map(({ value, calls, failures, mean_ms: mean, max_ms: max, cost_usd: cost }) => (
            <tr key={value}>
              <td className="lead">
                <a href={toCalls(value)}>{value}</a>
              </td>
              <td data-label="Calls" className="figure">
                {count(calls)}
              </td>
              <td data-label="Not successful" className="figure">
                {count(failures)} ({share(failures, calls)})
              </td>
              <td data-label="Mean" className="figure">
                {duration(mean)}
              </td>
              <td data-label="Maximum" className="figure">
                {duration(max)}
              </td>
              <td data-label="Cost" className="figure">
                {money(cost)}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {sums.length > MAX_ROWS && (
        <p className="soft small">
          The {MAX_ROWS} with the most calls of {count(sums.length)}.
        </p>
      )}
    </section>
  );
}
