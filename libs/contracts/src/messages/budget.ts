import type { EpochMs, MicroUsd } from '../units.js';

/** For whom a call spends. Agent and task only when the caller names them (K!34). */
export interface BudgetScopes {
  tenant_id: string;
  request_id: string;
  agent_id?: string;
  task_id?: string;
}

/** One reservation: a lease on money, charged in full when it expires unsettled. */
export interface ReserveAsk {
  call_id: string;
  scopes: BudgetScopes;
  micro_usd: MicroUsd;
  /** Tokens reserved; 0 unless the tool declares a cap. */
  tokens: number;
  /** Lease length: time left of the call plus grace. */
  lease_ms: number;
}

/** `budget.reserve`: the asks of one event-loop turn travel in one message. */
export interface BudgetReserve {
  asks: ReserveAsk[];
}
export type ReserveAnswer =
  | { admitted: true; call_id: string }
  | {
      admitted: false;
      call_id: string;
      code: 'BUDGET_EXCEEDED' | 'TOKEN_LIMIT_EXCEEDED' | 'BUDGET_UNAVAILABLE';
      scope: string;
      limit: number;
      used: number;
    };
export interface BudgetReserveReply {
  answers: ReserveAnswer[];
}

/** Row for `token_usage`, written exactly once by call id (A26–A28, F11, shannon-compat section 4). */
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
}

/** Settles a reservation at actual usage (≤ reserved), or records usage that had none. */
export interface SettleAsk {
  call_id: string;
  scopes: BudgetScopes;
  micro_usd: MicroUsd;
  tokens: number;
  row: UsageRow;
}
/** `budget.settle` */
export interface BudgetSettle {
  settlements: SettleAsk[];
}
export interface BudgetSettleReply {
  settled: number;
}

/** `budget.release`: gives reservations back whole. */
export interface BudgetRelease {
  releases: { call_id: string; scopes: BudgetScopes }[];
}

/** `budget.usage`: sums of the ledger for one tenant. */
export interface BudgetUsage {
  tenant_id: string;
  from_at?: EpochMs;
  to_at?: EpochMs;
  group_by: ('day' | 'tool' | 'user' | 'agent')[];
}
export interface UsageSum {
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
