import type { MicroUsd } from '@toolfleet/contracts';
import { DAY_MS } from '@toolfleet/database';
import type { BudgetScopes } from '@toolfleet/contracts/budget';
import type { FleetFile, LimitSettings } from '@toolfleet/fleet-file';
import type { ScopeLimit } from '@toolfleet/resilience';

/** Kinds of scopes that have limits, in the order in which they are checked; set budgets come after tasks. */
export type ScopeKind = 'request' | 'agent' | 'task' | 'day' | 'tenant';

/** Limits of one tenant by kind of scope. */
export interface TenantLimits extends Record<ScopeKind, ScopeLimit> {
  /** A call may cost more than was reserved for it, where its tool reports more. */
  costOverrun: boolean;
}

/** Configured limits: the defaults, and the limits of tenants. */
export interface LimitTable {
  defaults: TenantLimits;
  tenants: ReadonlyMap<string, TenantLimits>;
}

const UNLIMITED: ScopeLimit = { microUsd: null, tokens: null };

/** Limits that restrict nothing, as the base of `withSettings`. */
export function unlimited(): TenantLimits {
  return {
    request: { ...UNLIMITED },
    agent: { ...UNLIMITED },
    task: { ...UNLIMITED },
    day: { ...UNLIMITED },
    tenant: { ...UNLIMITED },
    costOverrun: false,
  };
}

/** Limits of a tenant: its own if configured, else the defaults. */
export function tenantLimits(table: LimitTable, tenantId: string): TenantLimits {
  return table.tenants.get(tenantId) ?? table.defaults;
}

/** Scope and currency of each setting. */
const SETTINGS: Record<Exclude<keyof LimitSettings, 'allow_cost_overrun'>, [ScopeKind, keyof ScopeLimit]> = {
  max_cost_per_request: ['request', 'microUsd'],
  max_tokens_per_request: ['request', 'tokens'],
  cost_budget_per_agent: ['agent', 'microUsd'],
  token_budget_per_agent: ['agent', 'tokens'],
  cost_budget_per_task: ['task', 'microUsd'],
  token_budget_per_task: ['task', 'tokens'],
  max_cost_per_day: ['day', 'microUsd'],
  max_tokens_per_day: ['day', 'tokens'],
  max_cost_per_tenant: ['tenant', 'microUsd'],
  max_tokens_per_tenant: ['tenant', 'tokens'],
};

const SETTING_NAMES = Object.keys(SETTINGS) as (keyof typeof SETTINGS)[];

/**
 * Applies settings to limits: a number replaces, null removes, and an absent setting keeps the limit.
 * @throws RangeError naming the setting that is negative, not a number, or not an integer number of tokens
 */
export function withSettings(base: TenantLimits, settings: LimitSettings): TenantLimits {
  const limits = structuredClone(base);
  limits.costOverrun = settings.allow_cost_overrun ?? base.costOverrun;
  for (const name of SETTING_NAMES) {
    const value = settings[name];
    if (value === undefined) continue;
    const [kind, currency] = SETTINGS[name];
    limits[kind][currency] = value === null ? null : toLimit(name, currency, value);
  }
  return limits;
}

function toLimit(name: string, currency: keyof ScopeLimit, value: number): number {
  const integer = currency === 'microUsd' ? Math.round(value * 1_000_000) : value;
  if (!Number.isSafeInteger(integer) || integer < 0) {
    const wanted = currency === 'tokens' ? 'a non-negative integer number of tokens' : 'a non-negative amount in USD';
    throw new RangeError(`${name} must be ${wanted}`);
  }
  return integer;
}

/**
 * The limits of the section `budget` of the configuration file; they override the environment:
 * ```yaml
 * budget:
 *   defaults: { max_cost_per_day: 50 }          # USD, or integer tokens; null removes a limit
 *   tenants:
 *     acme: { max_cost_per_tenant: 500, token_budget_per_agent: null, allow_cost_overrun: true }
 * ```
 */
export function limitTable(
  environment: TenantLimits,
  { defaults = {}, tenants = {} }: FleetFile['budget'],
): LimitTable {
  const base = withSettings(environment, defaults);
  const own = Object.entries(tenants).map(([id, settings]) => [id, withSettings(base, settings)] as const);
  return { defaults: base, tenants: new Map(own) };
}

/** The counters of a budget that was set over the API, with its own limit. */
export interface SetScope {
  kind: 'budget';
  /** `user/2026-11:ada` */
  name: string;
  limit: ScopeLimit;
}

/** A scope in which a call spends. */
export type NamedScope =
  | {
      kind: ScopeKind;
      /** Name of its counters: `tenant`, `day`, `request:<id>`, `agent:<id>`, `task:<id>`. The store adds the date to `day`. */
      name: string;
    }
  | SetScope;

/** The limit of a scope: by kind, or its own. */
export function limitOf(limits: TenantLimits, scope: NamedScope): ScopeLimit {
  return scope.kind === 'budget' ? scope.limit : limits[scope.kind];
}

/**
 * Scopes of a call that need counters besides tenant and day: agent and task if the caller names them, and the request. A call
 * without a request id is its own request. It spends there once, so `Budget` checks that limit without a counter, unless other calls
 * spend in the same request (`sharesRequest`).
 */
export function countedScopes(scopes: BudgetScopes, callId: string, sharesRequest = false): NamedScope[] {
  const named: NamedScope[] = [];
  if (scopes.request_id && (sharesRequest || scopes.request_id !== callId)) {
    named.push({ kind: 'request', name: `request:${scopes.request_id}` });
  }
  if (scopes.agent_id) named.push({ kind: 'agent', name: `agent:${scopes.agent_id}` });
  if (scopes.task_id) named.push({ kind: 'task', name: `task:${scopes.task_id}` });
  return named;
}

/**
 * The units in which a call needs an estimate: a limit applies that somebody named, and only its tool reports the cost.
 * A call that is its own request spends there once and needs none.
 * @param limits of the tenant
 * @param scopes in which the call spends, besides tenant and day
 */
export function estimatedUnits(
  limits: TenantLimits,
  scopes: readonly NamedScope[],
  { microUsd, unnamedRequest }: { microUsd: MicroUsd; unnamedRequest?: boolean | undefined },
): { microUsd: boolean; tokens: boolean } {
  const all = [limits.tenant, limits.day];
  for (const scope of scopes) if (scope.kind !== 'request' || !unnamedRequest) all.push(limitOf(limits, scope));
  const hasPrice = microUsd > 0 && !limits.costOverrun;
  return {
    microUsd: !hasPrice && all.some((limit) => limit.microUsd !== null),
    tokens: all.some((limit) => limit.tokens !== null),
  };
}

/** A counter's name for people: `day:20778` becomes `day:2026-11-21`. */
export function shownScope(name: string): string {
  if (!name.startsWith('day:')) return name;
  return `day:${new Date(Number(name.slice(4)) * DAY_MS).toISOString().slice(0, 10)}`;
}

/** Kind of a scope by the name of its counters: `agent:planner` is an agent, `user/2026-11:ada` a set budget. */
export function scopeKind(scope: string): ScopeKind | 'budget' {
  if (/^[a-z]+\//.test(scope)) return 'budget';
  const colon = scope.indexOf(':');
  return (colon < 0 ? scope : scope.slice(0, colon)) as ScopeKind;
}
