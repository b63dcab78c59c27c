import { useState } from 'react';
import type { Budget, UsageRow } from '@toolfleet/client';
import { dayBefore, daysBetween, stackUsage, type Measure } from '../chart/stack-usage.js';
import { seriesColor, StackedColumns } from '../chart/stacked-columns.js';
import { useSigned } from '../session.js';
import { compact, count, money } from '../format.js';
import { Choice, Columns, ConfirmButton, Empty, ErrorNotice, Head, Loaded, Segments } from '../ui/components.js';
import { Meter } from '../ui/meters.js';
import { useAction } from '../use-action.js';
import { useQuery } from '../use-query.js';
import { SetBudgetForm } from './set-budget-form.js';

const MEASURES: readonly (readonly [Measure, string])[] = [
  ['cost_usd', 'Cost'],
  ['calls', 'Calls'],
  ['tokens', 'Tokens'],
];

/** Budgets of the tenant and its usage over time. */
export function BudgetsView() {
  const { api, me } = useSigned();
  const [days, setDays] = useState('30');
  const to = dayBefore(Date.now(), 0);
  const from = dayBefore(Date.now(), Number(days) - 1);
  const budgets = useQuery('budgets', api.budgets);
  const forecast = useQuery('forecast', api.forecast);
  const usage = useQuery(`usage ${from} ${to}`, (signal) => api.usage(from, to, signal));
  return (
    <>
      <Head title="Budgets and cost" about={`Of ${me.tenant_id}. Days are counted in UTC.`}>
        <button
          onClick={() => {
            budgets.refresh();
            usage.refresh();
          }}
        >
          Refresh
        </button>
      </Head>
      <Loaded query={budgets}>
        {(found) => <BudgetCards budgets={found} tenant={me.tenant_id} onChange={budgets.refresh} />}
      </Loaded>
      {me.rights.includes('manage_budgets') && <SetBudgetForm onSet={budgets.refresh} />}
      <section className="card stack" aria-labelledby="over-time">
        <div className="row spread">
          <h2 id="over-time">Over time</h2>
          <Choice
            label="Period"
            value={days}
            onChange={setDays}
            options={[
              ['7', '7 days'],
              ['30', '30 days'],
              ['90', '90 days'],
            ]}
          />
        </div>
        <Loaded query={forecast}>
          {({ month, observed_days: observed, rows }) => (
            <p className="small">
              {money(sumOf(rows.map((row) => row.spent_usd)))} spent in {month}; at its end{' '}
              <strong>{money(sumOf(rows.map((row) => row.forecast_usd)))}</strong>, if it goes on as in the last{' '}
              {observed === 1 ? 'day' : `${observed} days`}.
            </p>
          )}
        </Loaded>
        <Loaded query={usage}>{(rows) => <OverTime rows={rows} days={daysBetween(from, to)} />}</Loaded>
      </section>
    </>
  );
}

const sumOf = (amounts: readonly number[]): number => amounts.reduce((sum, one) => sum + one, 0);

/** Spending and reservations of each budget; with `onChange`, those that were set over the API can be removed. */
export function BudgetCards({
  budgets,
  tenant,
  onChange,
}: {
  budgets: readonly Budget[];
  tenant?: string;
  onChange?: () => void;
}) {
  const { api, me } = useSigned();
  const { error, act } = useAction(onChange);
  const remove = ({ subject, subject_id: id, period }: Budget) =>
    act(() => api.removeBudget({ subject, id, period, tenant_id: tenant }));
  const mayRemove = ({ subject }: Budget): boolean =>
    onChange !== undefined &&
    subject !== undefined &&
    me.rights.includes(subject === 'tenant' ? 'operate_fleet' : 'manage_budgets');
  return (
    <>
      {error && <ErrorNotice error={error} />}
      <div className="cards">
        {budgets.map((budget) => (
          <BudgetCard
            key={budget.scope}
            budget={budget}
            onRemove={mayRemove(budget) ? () => void remove(budget) : undefined}
          />
        ))}
      </div>
    </>
  );
}

/** `user ada in 2026-11`, `day 2026-11-21`, `tenant in total`. */
function describeScope({ scope, subject, subject_id: id }: Budget): string {
  if (subject === undefined) return scope.replace(':', ' ');
  const period = scope.slice(subject.length + 1).split(':')[0];
  return [subject, id, 'in', period].filter(Boolean).join(' ');
}

function BudgetCard({ budget, onRemove }: { budget: Budget; onRemove: (() => void) | undefined }) {
  const { limit_usd: limit, spent_usd: spent, held_usd: held } = budget;
  const scope = describeScope(budget);
  return (
    <section className="card stack" aria-label={`Budget of the ${scope}`}>
      <div className="row spread">
        <h2 className="wrap">{scope}</h2>
        {onRemove && (
          <ConfirmButton danger question={`Remove the budget of ${scope}?`} onConfirm={onRemove}>
            Remove<span className="visually-hidden"> the budget of {scope}</span>
          </ConfirmButton>
        )}
      </div>
      <div className="stack tight">
        <span className="row spread small">
          <span>
            {money(spent)} spent{held > 0 && `, ${money(held)} held`}
          </span>
          <span>{limit === null ? 'no limit' : `of ${money(limit)}`}</span>
        </span>
        {limit !== null && <Meter used={spent} held={held} total={limit} label={`Money of the ${scope}`} />}
      </div>
      <div className="stack tight">
        <span className="row spread small">
          <span>{count(budget.spent_tokens)} tokens</span>
          <span>{budget.limit_tokens === null ? 'no limit' : `of ${count(budget.limit_tokens)}`}</span>
        </span>
        {budget.limit_tokens !== null && (
          <Meter
            used={budget.spent_tokens}
            held={budget.held_tokens}
            total={budget.limit_tokens}
            label={`Tokens of the ${scope}`}
          />
        )}
      </div>
    </section>
  );
}

function OverTime({ rows, days }: { rows: UsageRow[]; days: string[] }) {
  const [chosen, setMeasure] = useState<Measure>();
  // Without priced tools the chart of costs is empty, so calls are shown first.
  const measure = chosen ?? (rows.some(({ cost_usd: cost }) => cost > 0) ? 'cost_usd' : 'calls');
  const usage = stackUsage(rows, days, measure);
  const exact = measure === 'cost_usd' ? money : count;
  const total = usage.series.reduce((sum, series) => sum + series.total, 0);
  return (
    <div className="stack">
      <div className="row spread">
        <Segments label="Measure" value={measure} onChange={setMeasure} options={MEASURES} />
        <strong className="numbers">{exact(total)} in all</strong>
      </div>
      {usage.series.length === 0 ? (
        <Empty>No usage in this period.</Empty>
      ) : (
        <>
          <StackedColumns
            usage={usage}
            label={`${MEASURES.find(([name]) => name === measure)?.[1] ?? ''} per day, by tool; figures in the table below`}
            format={measure === 'cost_usd' ? money : compact}
          />
          <table className="table">
            <Columns names={['Tool', 'In all', 'Share']} figures={['In all', 'Share']} />
            <tbody>
              {usage.series.map((series, place) => (
                <tr key={series.name}>
                  <td className="lead">
                    <span className="row">
                      <span className={`dot ${seriesColor(place)}`} />
                      {series.name}
                    </span>
                  </td>
                  <td data-label="Total" className="figure">
                    {exact(series.total)}
                  </td>
                  <td className="figure wide-only">{Math.round((series.total / total) * 100)} %</td>
                </tr>
              ))}
            </tbody>
          </table>
        </>
      )}
    </div>
  );
}
