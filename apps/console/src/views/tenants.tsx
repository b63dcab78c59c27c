import { useState } from 'react';
import { useRoute } from '../api/queries.js';
import { count, dateTime, money } from '../format.js';
import { toAddress, toFilteredAddress } from '../router.js';
import { Back, Card, Facts, Head, Loaded } from '../ui/components.js';
import { RouteTable } from '../ui/table.js';
import { BudgetCards } from './budgets.js';
import { CallFigures, PeriodChoice, type Period } from './call-figures.js';

/** Every tenant, or one of them. */
export function TenantsView({ item }: { item: string | undefined }) {
  return item === undefined ? <TenantList /> : <TenantPage key={item} id={item} />;
}

const usedText = (at: string | null): string => (at === null ? 'never' : dateTime(at));

function TenantList() {
  const about = 'Tenants with keys, or with usage in this month. Days and months are those of UTC.';
  return (
    <>
      <Head title="Tenants" about={about} refreshes />
      <RouteTable
        route="GET /api/v1/tenants"
        label="All tenants"
        empty="No tenants yet: fleetctl tenants create makes one."
        order={(one, other) => other.spent_usd - one.spent_usd}
        rowKey={(tenant) => tenant.tenant_id}
        columns={[
          { head: 'Tenant', kind: 'lead', cell: ({ tenant_id: id }) => <a href={toAddress('tenants', id)}>{id}</a> },
          { head: 'Keys', kind: 'figure', cell: ({ keys }) => count(keys) },
          { head: 'Spent this month', kind: 'figure', cell: ({ spent_usd: spent }) => money(spent) },
          { head: 'At its end', kind: 'figure', cell: ({ forecast_usd: forecast }) => money(forecast) },
          { head: 'Last used', cell: ({ last_used_at: at }) => usedText(at) },
        ]}
      />
    </>
  );
}

function TenantPage({ id }: { id: string }) {
  const [period, setPeriod] = useState<Period>('24h');
  const query = useRoute('GET /api/v1/tenants/{id}', { path: { id } });
  return (
    <>
      <Back to={toAddress('tenants')}>All tenants</Back>
      <Head title={id}>
        <a className="button" href={toFilteredAddress('calls', { tenant_id: id })}>
          Calls of this tenant
        </a>
        <PeriodChoice value={period} onChange={setPeriod} />
      </Head>
      <CallFigures filter={{ tenant_id: id }} period={period} by={['tool', 'user', 'key', 'code']}>
        <Loaded query={query}>
          {(tenant) => (
            <>
              <Card title="Tenant">
                <Facts
                  facts={[
                    ['Keys', count(tenant.keys)],
                    ['Administrator keys', count(tenant.administrators)],
                    ['Rate classes', tenant.tiers.join(', ') || 'default'],
                    ['Spent this month', money(tenant.spent_usd)],
                    ['Forecast for its end', money(tenant.forecast_usd)],
                    ['Last used', usedText(tenant.last_used_at)],
                  ]}
                />
              </Card>
              <BudgetCards budgets={tenant.budgets} tenant={id} isRemovable />
            </>
          )}
        </Loaded>
      </CallFigures>
    </>
  );
}
