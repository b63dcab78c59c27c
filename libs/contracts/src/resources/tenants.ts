import { closed, instant, integer, list, maybe, named, nullable, number, record, text } from '../json-schema.js';
import { API_KEY } from './credentials.js';
import { answer, routes } from './route.js';
import { BUDGET, BUDGET_LIMITS_SENT, tenantId } from './usage.js';

const TENANT = {
  tenant_id: text(),
  keys: integer('API keys that are neither revoked nor expired'),
  administrators: integer('Those of them with the role admin'),
  tiers: list(text(), 'Rate classes of its keys'),
  last_used_at: nullable(instant('Last use of one of its keys')),
  spent_usd: number('In this UTC month'),
  forecast_usd: number('At the end of the month, as GET /api/v1/usage/forecast computes it'),
};

const STORES = ['BUDGET_UNAVAILABLE', 'SERVICE_UNAVAILABLE'] as const;

export const TENANT_ROUTES = routes({ tag: 'tenants', access: 'operate_fleet', errors: STORES })({
  'GET /api/v1/tenants': {
    id: 'listTenants',
    summary: 'Tenants that have keys or usage of this month or the last 7 days',
    answers: { 200: answer('By id', list(named('Tenant', record(TENANT)))) },
  },
  'GET /api/v1/tenants/{id}': {
    id: 'getTenant',
    access: 'all_calls',
    summary: 'The own tenant, for operators any, with its budgets',
    path: { id: tenantId() },
    answers: { 200: answer('The tenant', record({ ...TENANT, budgets: list(BUDGET) })) },
  },
  'POST /api/v1/tenants': {
    id: 'createTenant',
    summary: 'The first administrator key of a tenant without keys, and on request a budget',
    body: closed({
      tenant_id: tenantId(),
      client: maybe(text('Name of the key; default: admin', { minLength: 1, maxLength: 64 })),
      tier: maybe(text('Rate class of the key', { maxLength: 64 })),
      ...BUDGET_LIMITS_SENT,
    }),
    example: { tenant_id: 'acme', limit_usd: 500 },
    audit: ['tenant_id', 'client', 'tier', ...Object.keys(BUDGET_LIMITS_SENT)],
    answers: {
      201: answer(
        'The key with its token, which is in this answer only',
        record({ tenant_id: text(), key: API_KEY, token: text('The secret'), budget: maybe(BUDGET) }),
      ),
    },
  },
});
