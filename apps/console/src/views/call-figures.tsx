import type { CallSum } from '@toolfleet/client';
import type { ReactNode } from 'react';
import { useLoading } from '../api/queries.js';
import { count, dateTime, duration, money, rate } from '../format.js';
import { toAddress, toFilteredAddress } from '../router.js';
import { useSigned } from '../session.js';
import { Card, Empty, Hidden, Loaded, Segments } from '../ui/components.js';
import { Table } from '../ui/table.js';
import { toCallQuery } from './call-filter.js';

const EVERY_MS = 30_000;
/** Rows of each table; the list of calls has all. */
const MAX_ROWS = 8;

/** Periods that end now, with their minutes. */
const PERIODS = [
  ['1h', 'Hour', 60],
  ['24h', 'Day', 1_440],
  ['7d', 'Week', 10_080],
] as const;
export type Period = (typeof PERIODS)[number][0];

/** The period of this name, else an hour. */
export const toPeriod = (name: string | undefined): Period => PERIODS.find(([one]) => one === name)?.[0] ?? '1h';

export function PeriodChoice({ value, onChange }: { value: Period; onChange: (period: Period) => void }) {
  const options = PERIODS.map(([name, text]) => [name, text] as const);
  return <Segments label="Period" value={value} onChange={onChange} options={options} />;
}

/** Tables of sums: the member of their rows, a title and the head of its column. */
const TABLES = {
  tenant: ['tenant_id', 'By tenant', 'Tenant'],
  tool: ['tool', 'By tool', 'Tool'],
  user: ['user_id', 'By user', 'User'],
  key: ['key_id', 'By key', 'Key'],
  code: ['code', 'By error code', 'Code'],
} as const;
type SumGroup = keyof typeof TABLES;

/**
 * Sums of the calls that match a filter, `children`, and a table for each group. Every figure leads to its calls, and tools and tenants
 * to their pages.
 */
export function CallFigures({
  filter = {},
  period,
  by,
  children,
}: {
  filter?: Record<string, string>;
  period: Period;
  by: readonly [SumGroup, ...SumGroup[]];
  children?: ReactNode;
}) {
  const { api } = useSigned();
  const selected = { ...filter, from: period };
  const ask = (signal: AbortSignal) => {
    const query = toCallQuery(selected, Date.now());
    const sum = (group_by: SumGroup) =>
      api.request('GET /api/v1/calls', { query: { ...query, group_by, limit: 1 }, signal });
    return Promise.all(by.map(sum));
  };
  const query = useLoading(['sums', selected, by], ask, { everyMs: EVERY_MS });
  const toCalls = (more: Record<string, string> = {}) => toFilteredAddress('calls', { ...selected, ...more });
  const minutes = PERIODS.find(([name]) => name === period)![2];
  const total = query.data?.[0]?.groups?.total;
  const since = query.data?.flatMap(({ groups }) => groups?.since ?? []).toSorted();
  return (
    <>
      {query.data?.[0]?.enabled === false && <Empty>This fleet does not record calls: GATEWAY_CALL_SPOOL is 0.</Empty>}
      {total && <Totals total={total} minutes={minutes} toCalls={toCalls} />}
      {children}
      <Loaded query={query}>
        {(answers) =>
          by.map((group, place) => (
            <SumTable key={group} group={group} rows={answers[place]?.groups?.rows ?? []} toCalls={toCalls} />
          ))
        }
      </Loaded>
      {since?.[0] !== undefined && (
        <p className="soft small">
          Only calls since {dateTime(since.at(-1)!)}: older ones are too many for one request.
        </p>
      )}
    </>
  );
}

type ToCalls = (filter?: Record<string, string>) => string;

const Totals = ({ total, minutes, toCalls }: { total: CallSum; minutes: number; toCalls: ToCalls }) => (
  <div className="figure-cards">
    <Figure label="Calls" value={count(total.calls)} more={rate(total.calls, minutes)} to={toCalls()} />
    <Figure
      label="Not successful"
      value={count(total.failures)}
      more={`${rate(total.failures, minutes)}, ${share(total.failures, total.calls)} of all`}
      to={toCalls({ status: 'failure' })}
    />
    <Figure label="Cost" value={money(total.cost_usd)} to={toAddress('budgets')} />
    <Figure
      label="Median duration"
      value={duration(total.p50_ms)}
      more={`95 % within ${duration(total.p95_ms)}, maximum ${duration(total.max_ms)}`}
      to={toCalls({ slower_than_ms: String(Math.floor(total.p95_ms)) })}
    />
  </div>
);

/** A figure that leads somewhere. */
export const Figure = ({ label, value, to, more }: { label: string; value: string; to: string; more?: ReactNode }) => (
  <a className="card tool" href={to}>
    <span className="soft small">{label}</span>
    <strong className="figure-value numbers">{value}</strong>
    {more !== undefined && <span className="soft small numbers">{more}</span>}
  </a>
);

/** Name of tools that were not found, in records. */
const UNKNOWN_TOOL = '[unknown]';

const share = (part: number, all: number): string => `${all === 0 ? 0 : Math.round((part / all) * 100)} %`;

function SumTable({ group, rows, toCalls }: { group: SumGroup; rows: readonly CallSum[]; toCalls: ToCalls }) {
  const [member, title, head] = TABLES[group];
  const sums = rows.flatMap((sum) => (sum[member] === undefined ? [] : [{ ...sum, value: sum[member] }]));
  if (sums.length === 0) return null;
  const toPage = (value: string): string => {
    if (group === 'tool' && value !== UNKNOWN_TOOL) return toAddress('tools', value);
    return group === 'tenant' ? toAddress('tenants', value) : toCalls({ [member]: value });
  };
  return (
    <Card title={title}>
      <Table
        rows={sums.slice(0, MAX_ROWS)}
        rowKey={({ value }) => value}
        columns={[
          { head, kind: 'lead', cell: ({ value }) => <a href={toPage(value)}>{value}</a> },
          {
            head: 'Calls',
            kind: 'figure',
            cell: ({ value, calls }) => (
              <a href={toCalls({ [member]: value })}>
                {count(calls)}
                <Hidden>calls of {value}</Hidden>
              </a>
            ),
          },
          {
            head: 'Not successful',
            kind: 'figure',
            cell: ({ value, calls, failures }) => (
              <a href={toCalls({ [member]: value, status: 'failure' })}>
                {count(failures)} ({share(failures, calls)})<Hidden>calls of {value} that did not succeed</Hidden>
              </a>
            ),
          },
          { head: 'Median', kind: 'figure', cell: ({ p50_ms: ms }) => duration(ms) },
          { head: '95 %', kind: 'figure', cell: ({ p95_ms: ms }) => duration(ms) },
          { head: 'Cost', kind: 'figure', cell: ({ cost_usd: cost }) => money(cost) },
        ]}
      />
      {sums.length > MAX_ROWS && (
        <p className="soft small">
          The {MAX_ROWS} with the most calls of {count(sums.length)}.
        </p>
      )}
    </Card>
  );
}
