/** All keys of one tenant, in the order of KEYS of the scripts; one hash tag, so that scripts run on Redis Cluster. */
export type BudgetKeys = [
  scopes: string,
  seen: string,
  leases: string,
  expiry: string,
  done0: string,
  done1: string,
  outbox: string,
];

/** Set of every tenant with budget state. */
export const TENANTS_KEY = 'budget:tenants';

const cache = new Map<string, BudgetKeys>();
const MOST_CACHED = 10_000;

/** Keys of a tenant; cached, because they are needed for each message. */
export function budgetKeys(tenantId: string): BudgetKeys {
  const known = cache.get(tenantId);
  if (known) return known;
  if (cache.size >= MOST_CACHED) cache.clear();
  const tag = `{b:${tenantId}}`;
  const keys: BudgetKeys = [
    `${tag}:scopes`,
    `${tag}:seen`,
    `${tag}:leases`,
    `${tag}:expiry`,
    `${tag}:done0`,
    `${tag}:done1`,
    `${tag}:outbox`,
  ];
  cache.set(tenantId, keys);
  return keys;
}
