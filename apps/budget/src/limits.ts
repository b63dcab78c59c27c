import type { BudgetScopes } from '@toolfleet/contracts/budget';
import type { ScopeLimit } from './ledger.js';

/** Kinds of scope a limit can stand on, in the order in which they are asked. */
export const SCOPE_KINDS = ['request', 'agent', 'task', 'day', 'tenant'] as const;
export type ScopeKind = (typeof SCOPE_KINDS)[number];

/** The limits of one tenant, per kind of scope. */
export type TenantLimits = Record<ScopeKind, ScopeLimit>;

/** Limits of the fleet as configured: defaults, and what single tenants have instead. */
export interface LimitTable {
  defaults: TenantLimits;
  tenants: ReadonlyMap<string, TenantLimits>;
}

const UNLIMITED: ScopeLimit = { microUsd: null, tokens: null };

/** Limits that restrict nothing; a starting point for tables and tests. */
export function unlimited(): TenantLimits {
  return {
    request: { ...UNLIMITED },
    agent: { ...UNLIMITED },
    task: { ...UNLIMITED },
    day: { ...UNLIMITED },
    tenant: { ...UNLIMITED },
  };
}

/** Limits of a tenant: its own where configured, else the defaults. */
export function limitsOf(table: LimitTable, tenantId: string): TenantLimits {
  return table.tenants.get(tenantId) ?? table.defaults;
}

/** Configured figures of limits, in USD and tokens; absent = inherited, null = no limit. */
export interface LimitFigures {
  max_cost_per_request?: number | null;
  max_tokens_per_request?: number | null;
  cost_budget_per_agent?: number | null;
  token_budget_per_agent?: number | null;
  cost_budget_per_task?: number | null;
  token_budget_per_task?: number | null;
  max_cost_per_day?: number | null;
  max_tokens_per_day?: number | null;
  max_cost_per_tenant?: number | null;
  max_tokens_per_tenant?: number | null;
}

/** Where each figure belongs. */
const FIGURES: Record<keyof LimitFigures, [ScopeKind, keyof ScopeLimit]> = {
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

/** Names of the figures, for messages about unknown ones. */
export const FIGURE_NAMES = Object.keys(FIGURES) as (keyof LimitFigures)[];

/**
 * Lays figures over limits: a number replaces, null lifts, an absent figure inherits.
 * @throws RangeError naming the figure that is negative, not a number, or not a whole number of tokens.
 */
export function withFigures(base: TenantLimits, figures: LimitFigures): TenantLimits {
  const limits = structuredClone(base);
  for (const name of FIGURE_NAMES) {
    const value = figures[name];
    if (value === undefined) continue;
    const [kind, currency] = FIGURES[name];
    limits[kind][currency] = value === null ? null : figureOf(name, currency, value);
  }
  return limits;
}

function figureOf(name: string, currency: keyof ScopeLimit, value: number): number {
  const integer = currency === 'microUsd' ? Math.round(value * 1_000_000) : value;
  if (!Number.isSafeInteger(integer) || integer < 0) {
    throw new RangeError(
      `${name}: ${currency === 'tokens' ? 'a whole number of tokens' : 'an amount in USD'}, 0 or more`,
    );
  }
  return integer;
}

/** One scope that a call spends in, with the name its counters are kept under. */
export interface NamedScope {
  kind: ScopeKind;
  /** `tenant`, `day`, `request:<id>`, `agent:<id>`, `task:<id>`; the store adds the date to `day`. */
  name: string;
}

/**
 * Scopes of a call that need counters: agent and task only when the caller names them. A call without a request id of its
 * own is its own request; it spends there once, so no counter is kept and `admitAlone` decides, unless others spend there
 * on its behalf (`sharesRequest`).
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

/** Whole days since 1970-01-01 UTC. */
export function epochDay(at: number): number {
  return Math.floor(at / 86_400_000);
}

/** Shown form of a counter's name: `day:20778` becomes `day:2026-11-21`. */
export function shownScope(name: string): string {
  if (!name.startsWith('day:')) return name;
  return `day:${new Date(Number(name.slice(4)) * 86_400_000).toISOString().slice(0, 10)}`;
}
