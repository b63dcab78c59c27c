import type { EpochMs, MicroUsd, Milliseconds } from '@toolfleet/contracts';
import type { ReserveAnswer, ReserveRequest, SettleRequest, SharedLease } from '@toolfleet/contracts/budget';
import type { Amount, Counters } from '@toolfleet/resilience';
import type { SetScope } from './limits.js';

/** A request for a lease, with what the service adds to it. */
export interface ReservationRequest extends ReserveRequest {
  /** Budgets that it spends from besides its scopes. */
  budgets?: readonly SetScope[];
  /** Units in which the call holds twice the largest amount that its tool was charged, unless the tool is known to report nothing. */
  estimates?: { microUsd: boolean; tokens: boolean } | undefined;
}

/** The grant of a shared lease, and whether limits apply to it. */
export type SharedGrant = Omit<SharedLease, 'call_limit_micro_usd' | 'estimates'>;

/**
 * Result of a reservation. `BUDGET_UNAVAILABLE`: the outbox to the ledger is full, too little is left for a shared lease, or other calls
 * of the tool run before anything is known of it (`turn`). A call that was already charged is refused as
 * BUDGET_EXCEEDED with scope `call:<id>`, because no id is charged twice.
 */
export type Admission =
  | { admitted: true; shared?: SharedGrant; estimated?: boolean }
  | Omit<Extract<ReserveAnswer, { admitted: false }>, 'call_id' | 'separate_by'>;

/** Actual usage of one call, with what the service adds to it. */
export interface Settlement extends Omit<SettleRequest, 'row'> {
  budgets?: readonly SetScope[];
  /** The ledger row as JSON, empty for none. The store does not read it; the drain adds the charged amounts. */
  row: string;
  /** Its tool, if the amounts tell what other calls of it may cost. */
  tool_name?: string | undefined;
}

/** Spending of a scope before and after an operation, for threshold events. */
export interface ScopeSpent {
  scope: string;
  microUsdBefore: MicroUsd;
  microUsdAfter: MicroUsd;
  tokensBefore: number;
  tokensAfter: number;
}

export interface SettleOutcome {
  /** Settlements that were charged; the others were repeated or their lease had expired. */
  settled: number;
  spending: ScopeSpent[];
}

export interface SweepOutcome {
  spending: ScopeSpent[];
  /** Leases that expired unsettled and were charged. */
  expired: number;
  /** Leases still open. */
  openLeases: number;
  heldMicroUsd: MicroUsd;
  /** Rows in the outbox. */
  outboxRows: number;
  /** True if there is more to sweep. */
  more: boolean;
}

/** Counters of a scope. */
export interface ScopeCounters extends Counters {
  scope: string;
}

/** Spending of a scope according to the ledger. */
export interface LedgerSum extends Amount {
  scope: string;
}

/** Reads the spending of a tenant when the store has no state of it: a new tenant, or the store lost its data. */
export type LedgerSums = (tenantId: string) => Promise<LedgerSum[]>;

/** Times and sizes of a reservation store. */
export interface ReservationRules {
  /** Unused counters of requests, agents, tasks and days are removed after this time. */
  scopeTtlMs: Milliseconds;
  /** Settled and expired call ids are remembered for at least this time. */
  idMemoryMs: Milliseconds;
  /** Rows in the outbox of a tenant above which its new calls are refused. */
  outboxCap: number;
}

/** 100,000 rows are several minutes of a fleet under full load. */
export const DEFAULT_RULES: ReservationRules = {
  scopeTtlMs: 24 * 3_600_000,
  idMemoryMs: 24 * 3_600_000,
  outboxCap: 100_000,
};

/** An outbox message with the rows that were charged together. */
export interface OutboxEntry {
  id: string;
  rows: ChargedRow[];
}

/** A row on its way to the ledger. */
export interface ChargedRow extends Amount {
  kind: 'settled' | 'expired';
  /** JSON of a UsageRow; for expired leases only the fields of the reservation. */
  row: string;
  /** When it was charged, by the clock of the store. */
  at: EpochMs;
}
