import { choice, integer, list, maybe, nullable, record, text, type Schema, type Value } from '../json-schema.js';
import { BUDGET_PERIODS, BUDGET_SUBJECTS, USAGE_GROUPS, type UsageRow as ShownUsage } from '../resources/usage.js';
import { MAX_ID_LENGTH } from '../text.js';
import type { EpochMs, MicroUsd } from '../units.js';

export type BudgetSubject = (typeof BUDGET_SUBJECTS)[number];
export type BudgetPeriod = (typeof BUDGET_PERIODS)[number];

/** Budgets that a call spends from. Agent and task are set only if the caller sent them. */
export interface BudgetScopes {
  tenant_id: string;
  request_id: string;
  agent_id?: string;
  task_id?: string;
}

/** A list with entries that are read one by one, so that an invalid one affects no other; senders split longer lists. */
const entries = <T>() => ({ type: 'array', maxItems: 5_000 }) as Schema<T[]>;

/**
 * How long a shared lease admits calls. A changed limit applies to the next lease, and without a budget service there is none, so
 * both take effect within this time.
 */
export const SHARED_LEASE_MS = 500;

/**
 * How long a lease outlives the deadline of its call, and how long its gateway tries to settle or release it. A gateway or budget service that
 * stalls for less time charges no call that did not run.
 */
export const LEASE_GRACE_MS = 30_000;

/** Start of the ids of shared leases, to tell them from call ids. */
export const SHARED_LEASE_PREFIX = 'lease:';

/**
 * One reservation: a lease on money that is charged in full if it expires before it is settled or released. It is the lease of one
 * call, or a shared lease, from which a gateway admits many calls without asking for each.
 */
export interface ReserveRequest {
  /** Of a shared lease: `lease:<uuid>`. */
  call_id: string;
  scopes: BudgetScopes;
  /** Maximum cost of the call; of a shared lease, the wanted maximum. */
  micro_usd: MicroUsd;
  /** Reserved tokens; 0 unless the tool declares a cap. */
  tokens: number;
  /** Length of the lease: time left of the call plus `LEASE_GRACE_MS`. */
  lease_ms: number;
  /** For the ledger row of a lease that expires. */
  user_id?: string;
  key_id?: string;
  tool_name?: string;
  source?: string;
  /** The call that this reservation is a slice of. */
  parent_call_id?: string;
  /** The call makes other calls that spend from its request, so its own price counts against that request as well. */
  shares_request?: boolean;
  /** An earlier run of the call may have been charged, so only the budget service can admit it. */
  may_repeat?: boolean;
  /** The tool may report tokens, or money that it has no price for: where these are limited, the call holds an estimate. */
  may_report?: boolean;
  /** The call is made by a run without a named request, so the limit of its request needs no estimate. */
  unnamed_request?: boolean;
  /** Asks for a shared lease: as much of the amounts as a hundredth of every limit's rest allows, refused below `least_micro_usd`. */
  shared?: {
    least_micro_usd: MicroUsd;
    /** The lease is for the calls of `user_id`, of `key_id`, or of both; absent: of all. */
    separate_by?: readonly SeparateBy[];
  };
}

/** By what shared leases are apart where users or keys have budgets. */
export type SeparateBy = 'user' | 'key';

/** The amounts of a shared lease, and the limits that its gateway checks for each call. */
export interface SharedLease {
  micro_usd: MicroUsd;
  tokens: number;
  /** True: a limit on money applies, so that nothing is admitted when the lease is used up, not even free calls. */
  limits_micro_usd: boolean;
  /** True: a limit on tokens applies. */
  limits_tokens: boolean;
  /** The most that a call may cost that is its own request; null = no limit. */
  call_limit_micro_usd: MicroUsd | null;
  /** Limited currencies: calls of tools that may report it need an estimate of the service. */
  estimates?: { micro_usd: boolean; tokens: boolean };
}

/** The part of a shared lease that a call had, given back with its settlement. */
export interface LeaseShare {
  id: string;
  micro_usd: MicroUsd;
  tokens: number;
}

/** `budget.reserve`: all reservations of one turn of the event loop, in one message. */
export const BUDGET_RESERVE = record({ asks: entries<ReserveRequest>() });
export type BudgetReserve = Value<typeof BUDGET_RESERVE>;
export type ReserveAnswer =
  | {
      admitted: true;
      call_id: string;
      /** The tenant's settings let a call cost more than it reserved, where its tool reports more. */
      may_overrun?: true;
      /** True: the call holds an estimate. False: it would, but its tool reports nothing. Absent: its reports are not limited. */
      estimated?: boolean;
      /** Of a shared lease. */
      lease?: SharedLease;
      /** Of a shared lease: members that separate the leases of its tenant. */
      separate_by?: readonly SeparateBy[];
    }
  | {
      admitted: false;
      call_id: string;
      code: 'BUDGET_EXCEEDED' | 'TOKEN_LIMIT_EXCEEDED' | 'BUDGET_UNAVAILABLE';
      /**
       * `tenant`, `day`, `request:<id>`, `agent:<id>`, `task:<id>`, or a set budget such as `user/2026-11:ada`; `call:<id>` when that call has already been charged. With
       * BUDGET_UNAVAILABLE: `store`, `outbox`, `share` (too little left for a shared lease), `turn` (calls that run will tell what
       * this one may cost), or `invalid:<field>` of a malformed reservation.
       */
      scope: string;
      /** Of a shared lease that is refused because it is not apart by these. */
      separate_by?: readonly SeparateBy[];
      limit: number;
      used: number;
      /** The part of `used` in shared leases (they end within a second), and in estimates (they end with their calls). */
      used_by_leases?: number;
    };
export interface BudgetReserveReply {
  answers: ReserveAnswer[];
}

/** A row of `token_usage`, written exactly once per call id. */
export interface UsageRow {
  call_id: string;
  tenant_id: string;
  user_id: string;
  /** The API key of the call. */
  key_id?: string;
  tool_name: string;
  /** Source of the tool: `mcp/crm`. */
  source?: string;
  agent_id?: string;
  task_id?: string;
  request_id?: string;
  /** Tokens that the tool reported, else synthetic ones. */
  tokens: number;
  /** Tokens that the tool reported. Only these count against limits. */
  real_tokens: number;
  micro_usd: MicroUsd;
  success: boolean;
  provenance: string;
  at: EpochMs;
  /** The call that this row is a slice of. Such rows do not count as calls. */
  parent_call_id?: string;
}

/**
 * Settles a reservation at its actual usage, at most the reservation, or records usage without a reservation. With the id of a
 * shared lease as `call_id`, it ends that lease: its share is the unused rest.
 */
export interface SettleRequest {
  call_id: string;
  scopes: BudgetScopes;
  micro_usd: MicroUsd;
  tokens: number;
  /** Absent: nothing ran, and the share of the lease is only given back. */
  row?: UsageRow;
  /** Absent for a call with its own lease. */
  lease?: LeaseShare;
}
/** `budget.settle` */
export const BUDGET_SETTLE = record({ settlements: entries<SettleRequest>() });
export type BudgetSettle = Value<typeof BUDGET_SETTLE>;
export interface BudgetSettleReply {
  /** Number of settlements charged; repeated ones are not counted. */
  settled: number;
  /** Malformed settlements that were ignored. Sending them again is useless. */
  refused?: { call_id: string; field: string }[];
}

/** `budget.release`: returns reservations without a charge. */
export const BUDGET_RELEASE = record({ releases: entries<{ call_id: string; scopes: BudgetScopes }>() });
export type BudgetRelease = Value<typeof BUDGET_RELEASE>;

/** Ids become parts of store keys, so control characters are refused. */
const ID = text(undefined, { pattern: '^[^\\p{Cc}\\p{Zl}\\p{Zp}\\p{Cs}]+$', maxLength: MAX_ID_LENGTH });
const TENANT = '[A-Za-z0-9_.@:-]{1,128}';
const INSTANT = integer(undefined, { minimum: 0, maximum: Number.MAX_SAFE_INTEGER });

/** `budget.usage`: sums of the ledger. */
export const BUDGET_USAGE = record({
  /** `*` for all tenants, requested only for operators. */
  tenant_id: text(undefined, { pattern: `^(\\*|${TENANT})$` }),
  from_at: maybe(INSTANT),
  to_at: maybe(INSTANT),
  tool_name: maybe(ID),
  /** Only charges for this user, and this key. */
  owner: maybe(record({ user_id: maybe(ID), key_id: maybe(ID) })),
  group_by: list(choice(USAGE_GROUPS)),
});
export type BudgetUsage = Value<typeof BUDGET_USAGE>;
/** Usage of one group, with the members that were grouped by. */
export interface UsageSum extends Omit<ShownUsage, 'cost_usd'> {
  micro_usd: MicroUsd;
}
export interface BudgetUsageReply {
  rows: UsageSum[];
}

/** `budget.limits`: limit, spent and held amounts per scope. */
export const BUDGET_LIMITS = record({
  scopes: record({
    tenant_id: text(undefined, { pattern: `^${TENANT}$` }),
    request_id: maybe(ID),
    agent_id: maybe(ID),
    task_id: maybe(ID),
  }),
  /** Budgets that were set over the API: absent none, `*` all of the tenant, else of its calls by this user and key. */
  budgets: maybe<'*' | { user_id?: string; key_id?: string }>({}),
});
export type BudgetLimits = Value<typeof BUDGET_LIMITS>;
export interface LimitState {
  scope: string;
  /** Of a budget that was set over the API. */
  budget?: { subject: BudgetSubject; id: string; period: BudgetPeriod };
  limit_micro_usd: MicroUsd | null;
  spent_micro_usd: MicroUsd;
  held_micro_usd: MicroUsd;
  limit_tokens: number | null;
  spent_tokens: number;
  held_tokens: number;
}
export interface BudgetLimitsReply {
  limits: LimitState[];
}

const BUDGET_NAME = {
  tenant_id: text(undefined, { pattern: `^${TENANT}$` }),
  subject: choice(BUDGET_SUBJECTS),
  /** Id of the user or key; empty for the tenant. */
  id: text(undefined, { pattern: '^[^\\p{Cc}\\p{Zl}\\p{Zp}\\p{Cs}]*$', maxLength: MAX_ID_LENGTH }),
  period: choice(BUDGET_PERIODS),
};
/** `budget.set`: a limit of a tenant, user or key, in place of the one with the same name. Null = no limit in that currency. */
export const BUDGET_SET = record({
  ...BUDGET_NAME,
  limit_micro_usd: nullable(INSTANT),
  limit_tokens: nullable(INSTANT),
  changed_by: text(),
});
export type BudgetSet = Value<typeof BUDGET_SET>;
export interface BudgetSetReply {
  budget: LimitState;
}
/** `budget.remove` */
export const BUDGET_REMOVE = record(BUDGET_NAME);
export type BudgetRemove = Value<typeof BUDGET_REMOVE>;

/**
 * `tool.spend`, with the delegation token of a call: a tool that spends while it runs reserves the most that its next step may
 * cost, then settles the actual cost. The tool includes these amounts in the usage that it finally reports, marked as
 * `settled`.
 */
export interface SpendMessage {
  /** `hold` reserves, `settle` charges, `release` returns the reservation unspent. */
  op: 'hold' | 'settle' | 'release';
  /** Id of the slice within its call: letters, digits and hyphens. */
  slice: string;
  /** Name of the tool, for the ledger. */
  tool: string;
  tokens: number;
  micro_usd: MicroUsd;
}
/** `held: false` means that the budget refused. Settlements and releases are always accepted. */
export type SpendReply =
  | { held: true }
  | ({ held: false } & Pick<Extract<ReserveAnswer, { admitted: false }>, 'code' | 'scope' | 'limit' | 'used'> & {
        /** The part of `used` that is settled. The rest is reserved by running calls and may be released. */
        spent: number;
      });
