import type { EpochMs, MicroUsd, Milliseconds } from '@toolfleet/contracts';
import type { BudgetScopes } from '@toolfleet/contracts/budget';
import type { Amount, Counters, Refusal } from './ledger.js';
import type { NamedScope, TenantLimits } from './limits.js';

/** A lease asked for one call. */
export interface Ask extends Amount {
  callId: string;
  scopes: BudgetScopes;
  leaseMs: Milliseconds;
  /** Who and what, for the ledger row of a lease that expires unsettled. */
  userId?: string;
  toolName?: string;
  parentCallId?: string;
  /** Others spend in the request this call is itself: it counts there, too. */
  sharesRequest?: boolean;
}

/**
 * Answer to an ask. `BUDGET_UNAVAILABLE`: the outbox to the ledger is full, so nothing new may be spent. A call that was
 * charged already is refused as BUDGET_EXCEEDED with scope `call:<id>`: one id is never charged twice.
 */
export type Admission =
  | { admitted: true }
  | {
      admitted: false;
      code: Refusal['code'] | 'BUDGET_UNAVAILABLE';
      scope: string;
      limit: number;
      used: number;
    };

/** Actual usage of one call. */
export interface Settlement extends Amount {
  callId: string;
  scopes: BudgetScopes;
  /** The ledger row as JSON; the store never reads it, the drain adds what was really charged. */
  row: string;
}

/** Spending of one scope before and after an operation, for threshold events. */
export interface Spending {
  scope: string;
  microUsdBefore: MicroUsd;
  microUsdAfter: MicroUsd;
  tokensBefore: number;
  tokensAfter: number;
}

export interface SettleOutcome {
  /** Settlements that changed something; the others were repeats. */
  settled: number;
  spending: Spending[];
}

export interface SweepOutcome {
  spending: Spending[];
  /** Leases charged because nobody settled them. */
  expired: number;
  /** Leases still open, and the money they hold. */
  openLeases: number;
  heldMicroUsd: MicroUsd;
  /** Rows waiting for the ledger. */
  outboxRows: number;
  /** True when one run was not enough. */
  more: boolean;
}

/** Counters of a scope as read. */
export interface ScopeCounters extends Counters {
  scope: string;
}

/** What the ledger says a scope has spent. */
export interface LedgerSum extends Amount {
  scope: string;
}

/** Reads what a tenant has spent, when the store knows nothing of it: a new tenant, or the store lost its data. */
export type LedgerSums = (tenantId: string) => Promise<LedgerSum[]>;

/** Times and sizes both adapters obey. */
export interface ReservationRules {
  /** State of requests, agents, tasks and days ends so long after its last use. */
  scopeTtlMs: Milliseconds;
  /** Settled and expired ids are remembered at least so long. */
  idMemoryMs: Milliseconds;
  /** Rows waiting for the ledger above which new calls are refused. */
  outboxCap: number;
}

/** A day for leases and ids; 100,000 ledger rows are several minutes of a full fleet. */
export const DEFAULT_RULES: ReservationRules = {
  scopeTtlMs: 24 * 3_600_000,
  idMemoryMs: 24 * 3_600_000,
  outboxCap: 100_000,
};

/**
 * Leases and counters of tenants. Every method is atomic per tenant and uses the store's own time. A lease is charged in
 * full when it expires unsettled: a crash may over-count, it cannot overspend. Infrastructure failures reject.
 */
export abstract class ReservationStore {
  /** Admits or refuses each ask in order; an open lease of the same call is admitted again without holding twice. */
  abstract reserve(tenantId: string, limits: TenantLimits, asks: readonly Ask[]): Promise<Admission[]>;
  /** Replaces leases by actual usage, once per call id; usage without a lease is recorded as it is. */
  abstract settle(tenantId: string, settlements: readonly Settlement[]): Promise<SettleOutcome>;
  /** Gives leases back whole. Returns how many there were. */
  abstract release(tenantId: string, callIds: readonly string[]): Promise<number>;
  /** Charges expired leases and forgets unused scopes. */
  abstract sweep(tenantId: string): Promise<SweepOutcome>;
  /**
   * Raises counters that are below the ledger's sums: the store was restored from an older copy, or a replica that lagged
   * took over. Returns how many were; none while the store kept its data.
   */
  abstract catchUp(tenantId: string): Promise<number>;
  /** Counters of the tenant, its current day and the named scopes. */
  abstract counters(tenantId: string, scopes: readonly NamedScope[]): Promise<ScopeCounters[]>;
}

/** One message of the outbox: rows that were charged together. */
export interface OutboxEntry {
  id: string;
  rows: ChargedRow[];
}

/** A row on its way to the ledger. */
export interface ChargedRow extends Amount {
  kind: 'settled' | 'expired';
  /** JSON of a UsageRow; for expired leases only what the ask said. */
  row: string;
  /** Instant of the charge, store time. */
  at: EpochMs;
}

/** The durable stream from the gate to the ledger, written in the same step as the charge. */
export abstract class UsageOutbox {
  /** Tenants that may have rows waiting. */
  abstract tenants(): Promise<string[]>;
  /** Oldest entries first; reading removes nothing. */
  abstract read(tenantId: string, maxEntries: number): Promise<OutboxEntry[]>;
  /** Removes entries that reached the ledger; safe to repeat. */
  abstract acknowledge(tenantId: string, entries: readonly OutboxEntry[]): Promise<void>;
}
