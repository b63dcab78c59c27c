import { Controller } from '@nestjs/common';
import { ApiKeys, isLive, requireRight, RequestLimits, toKeySpec, type KeyView } from '@toolfleet/access';
import { ToolError, type EpochMs, type Principal } from '@toolfleet/contracts';
import type { RouteInput, UsageGroup } from '@toolfleet/contracts/resources';
import { ADMIN_ROLE } from '@toolfleet/contracts/roles';
import { orUnavailable } from '@toolfleet/queue/redis';
import { Clock } from '@toolfleet/resilience';
import { NatsClient } from '@toolfleet/transport';
import { Caller } from '../server/guards.js';
import { Input, Serves } from '../server/routes.js';
import { toBudget, toBudgetSet } from './budgets.controller.js';
import { forecastMonth } from './forecast.js';
import { requireTier, toKeyBody } from './keys.controller.js';

const STORE = 'The store of keys';
const NOTHING_SPENT = { spent_usd: 0, forecast_usd: 0 };

/**
 * Tenants. The fleet has no record of a tenant: it is the name that keys, tokens, budgets and usage have in common. So the list is made
 * of those, and creating a tenant is issuing the key with which its administrator creates all others.
 */
@Controller()
export class TenantsController {
  constructor(
    private readonly nats: NatsClient,
    private readonly keys: ApiKeys,
    private readonly limits: RequestLimits,
    private readonly clock: Clock,
  ) {}

  @Serves('GET /api/v1/tenants')
  async list() {
    const [keys, costs] = await Promise.all([orUnavailable(STORE, this.keys.list()), this.#costs('*')]);
    const byTenant = Map.groupBy(keys, ({ tenantId }) => tenantId);
    const ids = [...new Set([...byTenant.keys(), ...costs.keys()])].toSorted();
    return ids.map((id) => this.#summary(id, byTenant.get(id) ?? [], costs));
  }

  /** @throws ToolError NOT_FOUND when nothing names it */
  @Serves('GET /api/v1/tenants/{id}')
  async get(@Caller() caller: Principal, @Input() { path: { id } }: RouteInput<'GET /api/v1/tenants/{id}'>) {
    requireRight(caller, 'all_calls', `Tenant ${id}`, id);
    const [keys, costs, { limits }] = await Promise.all([
      orUnavailable(STORE, this.keys.list(id)),
      this.#costs(id),
      this.nats.ask('budget.limits', { scopes: { tenant_id: id }, budgets: '*' }),
    ]);
    const isKnown =
      keys.length > 0 || costs.size > 0 || limits.some(({ budget, ...one }) => budget ?? one.spent_micro_usd);
    if (!isKnown && id !== caller.tenantId)
      throw new ToolError('NOT_FOUND', { message: `Tenant '${id}' has no keys, no budgets and no usage` });
    const now = this.clock.now();
    return { ...this.#summary(id, keys, costs), budgets: limits.map((limit) => toBudget(limit, now)) };
  }

  /** @throws ToolError REQUEST_INVALID when the tenant has keys */
  @Serves('POST /api/v1/tenants')
  async create(@Caller() caller: Principal, @Input() { body }: RouteInput<'POST /api/v1/tenants'>) {
    const { tenant_id: tenantId, client = 'admin', tier, period = 'month', ...limits } = body;
    requireTier(this.limits, tier);
    const spec = toKeySpec(caller, { tenantId, client, tier, roles: [ADMIN_ROLE] });
    const existing = await orUnavailable(STORE, this.keys.list(tenantId));
    if (existing.length > 0)
      throw new ToolError('REQUEST_INVALID', {
        message: `Tenant '${tenantId}' exists: it has ${existing.length} API keys; create further ones with POST /api/v1/keys`,
        details: { fields: ['tenant_id'] },
      });
    this.keys.check(spec);
    // The budget comes first, so that no call runs without it.
    const isLimited = limits.limit_usd !== undefined || limits.limit_tokens !== undefined;
    const name = { tenant_id: tenantId, subject: 'tenant', id: '', period } as const;
    const set = isLimited && (await this.nats.ask('budget.set', toBudgetSet(name, limits, caller)));
    const { token, key } = await orUnavailable(STORE, this.keys.issue(spec, caller.userId));
    return {
      tenant_id: tenantId,
      key: toKeyBody(key),
      token,
      budget: set ? toBudget(set.budget, this.clock.now()) : undefined,
    };
  }

  #summary(tenant_id: string, keys: readonly KeyView[], costs: ReadonlyMap<string, typeof NOTHING_SPENT>) {
    const now = this.clock.now();
    const live = keys.filter((key) => isLive(key, now));
    const used = keys.flatMap(({ lastUsedAt }) => lastUsedAt ?? []);
    return {
      tenant_id,
      keys: live.length,
      administrators: live.filter(({ roles }) => roles.includes(ADMIN_ROLE)).length,
      tiers: [...new Set(live.flatMap(({ tier }) => tier ?? []))].toSorted(),
      last_used_at: used.length === 0 ? null : new Date(Math.max(...used)).toISOString(),
      ...(costs.get(tenant_id) ?? NOTHING_SPENT),
    };
  }

  /** What tenants have spent this month and will have spent at its end, by tenant. */
  async #costs(tenant_id: string): Promise<Map<string, typeof NOTHING_SPENT>> {
    const sumsSince = async (from_at: EpochMs, group_by: readonly UsageGroup[]) => {
      const question = { tenant_id, from_at, to_at: undefined, group_by: [...group_by] };
      return (await this.nats.ask('budget.usage', question)).rows;
    };
    const { rows } = await forecastMonth(sumsSince, ['tenant'], this.clock.now());
    return new Map(rows.map(({ tenant_id: id = '', spent_usd, forecast_usd }) => [id, { spent_usd, forecast_usd }]));
  }
}
