import { useState } from 'react';
import { count, dateTime, money } from '../format.js';
import { toAddress, toFilteredAddress } from '../router.js';
import { useSigned } from '../session.js';
import { Columns, Empty, Facts, Head, Loaded } from '../ui/components.js';
import { useQuery } from '../use-query.js';
import { BudgetCards } from './budgets.js';
import { CallFigures, PeriodChoice, type Period } from './call-figures.js';

/** Every tenant, or one of them. */
export function TenantsView({ item }: { item: string | undefined }) {
  return item === undefined ? <TenantList /> : <TenantPage key={item} id={item} />;
}

function TenantList() {
  const { api } = useSigned();
  const query = useQuery('tenants', api.tenants);
  return (
    <>
      <Head title="Tenants" about="Tenants with keys, or with usage in this month. Days and months are those of UTC.">
        <button onClick={query.refresh}>Refresh</button>
      </Head>
      <Loaded query={query}>
        {(tenants) =>
          tenants.length === 0 ? (
            <Empty>No tenants yet: fleetctl tenants create makes one.</Empty>
          ) : (
            <section className="card stack" aria-label="All tenants">
              <table className="table">
                <Columns
                  names={['Tenant', 'Keys', 'Spent this month', 'At its end', 'Last used']}
                  figures={['Keys', 'Spent this month', 'At its end']}
                />
                <tbody>
                  {tenants
                    .toSorted((one, other) => other.spent_usd - one.spent_usd)
                    .map((tenant) => (
                      <tr key={tenant.tenant_id}>
                        <td className="lead">
                          <a href={toAddress('tenants', tenant.tenant_id)}>{tenant.tenant_id}</a>
                        </td>
                        <td data-label="Keys" className="figure">
                          {count(tenant.keys)}
                        </td>
                        <td data-label="Spent this month" className="figure">
                          {money(tenant.spent_usd)}
                        </td>
                        <td data-label="At its end" className="figure">
                          {money(tenant.forecast_usd)}
                        </td>
                        <td data-label="Last used">
                          {tenant.last_used_at === null ? 'never' : dateTime(tenant.last_used_at)}
                        </td>
                      </tr>
                    ))}
                </tbody>
              </table>
            </section>
          )
        }
      </Loaded>
    </>
  );
}

function TenantPage({ id }: { id: string }) {
  const { api } = useSigned();
  const [period, setPeriod] = useState<Period>('24h');
  const query = useQuery(`tenant ${id}`, (signal) => api.tenant(id, signal));
  return (
    <>
      <p>
        <a href={toAddress('tenants')}>All tenants</a>
      </p>
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
              <section className="card stack" aria-labelledby="tenant">
                <h2 id="tenant">Tenant</h2>
                <Facts
                  facts={[
                    ['Keys', count(tenant.keys)],
                    ['Administrator keys', count(tenant.administrators)],
                    ['Rate classes', tenant.tiers.join(', ') || 'default'],
                    ['Spent this month', money(tenant.spent_usd)],
                    ['Forecast for its end', money(tenant.forecast_usd)],
                    ['Last used', tenant.last_used_at === null ? 'never' : dateTime(tenant.last_used_at)],
                  ]}
                />
              </section>
              <BudgetCards budgets={tenant.budgets} tenant={id} onChange={query.refresh} />
            </>
          )}
        </Loaded>
      </CallFigures>
    </>
  );
}
