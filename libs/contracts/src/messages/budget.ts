import type { EpochMs, MicroUsd } from '../units.js';

/** For whom a call spends. Agent and task only when the caller names them. */
export interface BudgetScopes {
  tenant_id: string;
  request_id: string;
  agent_id?: string;
  task_id?: string;
}

/** One reservation: a lease on money, charged in full when it expires unsettled. */
export interface ReserveRequest {
  call_id: string;
  scopes: BudgetScopes;
  micro_usd: MicroUsd;
  /** Tokens reserved; 0 unless the tool declares a cap. */
  tokens: number;
  /** Lease length: time left of the call plus grace. */
  lease_ms: number;
  /** Who and what, for the ledger row of a lease that expires unsettled. */
  user_id?: string;
  tool_name?: string;
  /** The call this is a slice of. */
  parent_call_id?: string;
  /** The call spends through others in the request it is itself: its own price counts there, too. */
  shares_request?: boolean;
}

/** `budget.reserve`: the asks of one event-loop turn travel in one message. */
export interface BudgetReserve {
  asks: ReserveRequest[];
}
export type ReserveAnswer =
  | { admitted: true; call_id: string }
  | {
      admitted: false;
      call_id: string;
      code: 'BUDGET_EXCEEDED' | 'TOKEN_LIMIT_EXCEEDED' | 'BUDGET_UNAVAILABLE';
      /**
       * `tenant`, `day`, `request:<id>`, `agent:<id>`, `task:<id>`; `call:<id>` when that call was charged
       * already; with BUDGET_UNAVAILABLE `store`, `outbox`, or `invalid:<field>` of a malformed ask.
       */
      scope: string;
      limit: number;
      used: number;
    };
export interface BudgetReserveReply {
  answers: ReserveAnswer[];
}

/** Row for `token_usage`, written exactly once by call id. */
export interface UsageRow {
  call_id: string;
  tenant_id: string;
  user_id: string;
  tool_name: string;
  agent_id?: string;
  task_id?: string;
  request_id?: string;
  /** Recorded tokens: real ones, else synthetic. */
  tokens: number;
  /** Tokens the tool reported; only these count against limits. */
  real_tokens: number;
  micro_usd: MicroUsd;
  success: boolean;
  provenance: string;
  at: EpochMs;
  /** The call this row is a slice of; such rows carry amounts and do not count as calls. */
  parent_call_id?: string;
}

/** Settles a reservation at actual usage (≤ reserved), or records usage that had none. */
export interface SettleRequest {
  call_id: string;
  scopes: BudgetScopes;
  micro_usd: MicroUsd;
  tokens: number;
  row: UsageRow;
}
/** `budget.settle` */
export interface BudgetSettle {
  settlements: SettleRequest[];
}
export interface BudgetSettleReply {
  /** Settlements that were charged; repeats are not counted. */
  settled: number;
  /** Malformed settlements, left out; repeating them is pointless. */
  refused?: { call_id: string; field: string }[];
}

/** `budget.release`: gives reservations back whole. */
export interface BudgetRelease {
  releases: { call_id: string; scopes: BudgetScopes }[];
}

export interface BudgetReleaseReply {
  released: number;
}

/** `budget.usage`: sums of the ledger for one tenant. */
export interface BudgetUsage {
  /** `*`: every tenant (the gateway asks so for administrators only). */
  tenant_id: string;
  from_at?: EpochMs;
  to_at?: EpochMs;
  tool_name?: string;
  user_id?: string;
  group_by: ('day' | 'tool' | 'user' | 'agent' | 'tenant')[];
}
export interface UsageSum {
  tenant_id?: string;
  /** UTC day, `2026-11-21`. */
  day?: string;
  tool_name?: string;
  user_id?: string;
  agent_id?: string;
  calls: number;
  tokens: number;
  micro_usd: MicroUsd;
}
export interface BudgetUsageReply {
  rows: UsageSum[];
}

/** `budget.limits`: limits and what is spent and held, per scope. */
export interface BudgetLimits {
  scopes: Partial<BudgetScopes> & { tenant_id: string };
}
export interface LimitState {
  scope: string;
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

/** `budget.threshold`: published once when spending of a scope reaches 80 % of a limit. */
export interface BudgetThreshold {
  tenant_id: string;
  scope: string;
  currency: 'micro_usd' | 'tokens';
  limit: number;
  spent: number;
  at: EpochMs;
}

/**
 * `tool.spend`, with the delegation token of a call: a tool that spends as it goes holds the most its next step may cost, and
 * settles what the step did cost. The amounts are part of the usage the tool reports at its end, with `settled`.
 */
export interface SpendMessage {
  /** `release`: nothing was spent. */
  op: 'hold' | 'settle' | 'release';
  /** Id of the slice, unique within its call: letters, digits and hyphens. */
  slice: string;
  /** Name of the tool that spends, for the ledger. */
  tool: string;
  tokens: number;
  micro_usd: MicroUsd;
}
/** `held: false` is a refusal of the budget; settlements and releases are always taken. */
export type SpendReply =
  | { held: true }
  | ({ held: false } & Pick<Extract<ReserveAnswer, { admitted: false }>, 'code' | 'scope' | 'limit' | 'used'> & {
        /** The part of `used` that is spent for good; the rest is held by running calls and may become free. */
        spent: number;
      });
