import type { Budget, UsageRow } from '@toolfleet/client';
import { useState } from 'react';
import { useRoute } from '../api/queries.js';
import { dayBefore, daysBetween, stackUsage, type Measure, type StackedUsage } from '../chart/stack-usage.js';
import { seriesColor, StackedColumns } from '../chart/stacked-columns.js';
import { compact, count, money } from '../format.js';
import { RouteForm } from '../schema/route-form.js';
import { useSigned } from '../session.js';
import { ActionButton, Card, Choice, Empty, Head, Loaded, Segments } from '../ui/components.js';
import { LimitMeter } from '../ui/meters.js';
import { Table } from '../ui/table.js';
import { TestRule } from './test-rule.js';

const MEASURES: readonly (readonly [Measure, string])[] = [
  ['cost_usd', 'Cost'],
  ['calls', 'Calls'],
  ['tokens', 'Tokens'],
];
const PERIODS = [
  ['7', '7 days'],
  ['30', '30 days'],
  ['90', '90 days'],
] as const;

/** Budgets of the tenant and its usage over time. */
export function BudgetsView() {
  const { me } = useSigned();
  const budgets = useRoute('GET /api/v1/budgets', {});
  return (
    <>
      <Head title="Budgets and cost" about={`Of ${me.tenant_id}. Days are counted in UTC.`} refreshes />
      <Loaded query={budgets}>
        {(found) => <BudgetCards budgets={found.budgets} tenant={me.tenant_id} isRemovable />}
      </Loaded>
      {me.rights.includes('manage_budgets') && <SetBudgetCard />}
      <UsageCard />
    </>
  );
}

/** @param subject the chosen one, by its place: user, key, tenant */
const toMembers = (subject: string | undefined, isOperator: boolean) =>
  ({
    subject: {
      label: 'Of a',
      initial: 'user',
      choices: [['user', 'User'], ['key', 'API key'], ...(isOperator ? [['tenant', 'Tenant'] as const] : [])],
    },
    id: subject !== '2' && {
      label: subject === '1' ? 'Id of the key' : 'Id of the user',
      help: '',
      required: true,
    },
    tenant_id: subject === '2' && { help: '', required: true },
    period: {
      label: 'Each',
      help: '',
      required: true,
      initial: 'month',
      choices: [
        ['day', 'Day (UTC)'],
        ['month', 'Month (UTC)'],
        ['total', 'In total'],
      ],
    },
    limit_usd: { label: 'USD', help: '' },
    limit_tokens: { label: 'Tokens' },
  }) as const;

/** Sets the budget of a user or key, and for operators of a tenant. */
function SetBudgetCard() {
  const { me } = useSigned();
  const isOperator = me.rights.includes('operate_fleet');
  return (
    <Card title="Set a budget">
      <RouteForm
        route="PUT /api/v1/budgets"
        members={({ subject }) => toMembers(subject, isOperator)}
        isComplete={({ limit_usd: usd = '', limit_tokens: tokens = '' }) => usd !== '' || tokens !== ''}
        submit="Set"
      >
        {(read, isReady) => (
          <TestRule
            disabled={!isReady}
            rule={() => {
              const body = read();
              if (!body) return undefined;
              const { tenant_id, ...budget } = body;
              return { tenant_id, budget };
            }}
          />
        )}
      </RouteForm>
    </Card>
  );
}

/** Usage of a period by day and tool, and the forecast for the month. */
function UsageCard() {
  const [days, setDays] = useState('30');
  const to = dayBefore(Date.now(), 0);
  const from = dayBefore(Date.now(), Number(days) - 1);
  const forecast = useRoute('GET /api/v1/usage/forecast', {});
  const usage = useRoute('GET /api/v1/usage', { query: { group_by: 'day,tool', from, to } });
  return (
    <Card title="Over time" aside={<Choice label="Period" value={days} onChange={setDays} options={PERIODS} />}>
      <Loaded query={forecast}>
        {({ month, observed_days: observed, rows }) => (
          <p className="small">
            {money(total(rows.map((row) => row.spent_usd)))} spent in {month}; at its end{' '}
            <strong>{money(total(rows.map((row) => row.forecast_usd)))}</strong>, if it goes on as in the last{' '}
            {observed === 1 ? 'day' : `${observed} days`}.
          </p>
        )}
      </Loaded>
      <Loaded query={usage}>{({ rows }) => <OverTime rows={rows} days={daysBetween(from, to)} />}</Loaded>
    </Card>
  );
}

const total = (amounts: readonly number[]): number => amounts.reduce((sum, one) => sum + one, 0);

/** Spending and reservations of each budget. `isRemovable`: budgets that were set over the API can be removed. */
export function BudgetCards(props: { budgets: readonly Budget[]; tenant?: string; isRemovable?: boolean }) {
  const { budgets, tenant, isRemovable } = props;
  const { api, me } = useSigned();
  const remove = ({ subject, subject_id: id, period }: Budget) =>
    api.request('DELETE /api/v1/budgets', { query: { subject, id, period, tenant_id: tenant } });
  const mayRemove = ({ subject }: Budget) =>
    isRemovable && subject && me.rights.includes(subject === 'tenant' ? 'operate_fleet' : 'manage_budgets');
  return (
    <div className="cards">
      {budgets.map((budget) => (
        <BudgetCard
          key={budget.scope}
          budget={budget}
          onRemove={mayRemove(budget) ? () => remove(budget) : undefined}
        />
      ))}
    </div>
  );
}

/** `user ada in 2026-11`, `day 2026-11-21`, `tenant in total`. */
function describeScope({ scope, subject, subject_id: id }: Budget): string {
  if (subject === undefined) return scope.replace(':', ' ');
  const period = scope.slice(subject.length + 1).split(':')[0];
  return [subject, id, 'in', period].filter(Boolean).join(' ');
}

function BudgetCard(props: { budget: Budget; onRemove: (() => Promise<unknown>) | undefined }) {
  const { budget, onRemove } = props;
  const { spent_usd: spent, held_usd: held, spent_tokens: tokens, limit_usd: usd, limit_tokens: limit } = budget;
  const scope = describeScope(budget);
  const remove = onRemove && (
    <ActionButton danger hidden={`the budget of ${scope}`} question={`Remove the budget of ${scope}?`} work={onRemove}>
      Remove
    </ActionButton>
  );
  return (
    <Card title={scope} label={`Budget of the ${scope}`} aside={remove}>
      <LimitMeter
        text={`${money(spent)} spent${held > 0 ? `, ${money(held)} held` : ''}`}
        limit={usd === null ? 'no limit' : `of ${money(usd)}`}
        used={spent}
        held={held}
        total={usd}
        label={`Money of the ${scope}`}
      />
      <LimitMeter
        text={`${count(tokens)} tokens`}
        limit={limit === null ? 'no limit' : `of ${count(limit)}`}
        used={tokens}
        held={budget.held_tokens}
        total={limit}
        label={`Tokens of the ${scope}`}
      />
    </Card>
  );
}

function OverTime({ rows, days }: { rows: UsageRow[]; days: string[] }) {
  const [chosen, setMeasure] = useState<Measure>();
  // Without priced tools the chart of costs is empty, so calls are shown first.
  const measure = chosen ?? (rows.some(({ cost_usd: cost }) => cost > 0) ? 'cost_usd' : 'calls');
  const usage = stackUsage(rows, days, measure);
  const exact = measure === 'cost_usd' ? money : count;
  return (
    <div className="stack">
      <div className="row spread">
        <Segments label="Measure" value={measure} onChange={setMeasure} options={MEASURES} />
        <strong className="numbers">{exact(total(usage.series.map((series) => series.total)))} in all</strong>
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
          <SeriesTable series={usage.series} format={exact} />
        </>
      )}
    </div>
  );
}

function SeriesTable({ series, format }: { series: StackedUsage['series']; format: (value: number) => string }) {
  const all = total(series.map((one) => one.total));
  return (
    <Table
      rows={series}
      rowKey={({ name }) => name}
      columns={[
        {
          head: 'Tool',
          kind: 'lead',
          cell: (one) => (
            <span className="row">
              <span className={`dot ${seriesColor(series.indexOf(one))}`} />
              {one.name}
            </span>
          ),
        },
        { head: 'In all', kind: 'figure', cell: (one) => format(one.total) },
        {
          head: 'Share',
          kind: 'figure',
          className: 'wide-only',
          labelled: false,
          cell: (one) => `${Math.round((one.total / all) * 100)} %`,
        },
      ]}
    />
  );
}
