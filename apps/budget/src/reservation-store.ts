import type { EpochMs, MicroUsd, Milliseconds } from '@toolfleet/contracts';
import type { BudgetScopes } from '@toolfleet/contracts/budget';
import type { Amount, Counters, Refusal } from '@toolfleet/resilience';
import type { NamedScope, SetScope, TenantLimits } from './limits.js';

/** Request to lease the amount that one call may cost, or a shared lease that many calls of one gateway draw on. */
export interface ReservationRequest extends Amount {
  /** The id of the lease. Ids of shared leases start with `lease:`. */
  callId: string;
  scopes: BudgetScopes;
  /** Budgets that it spends from besides its scopes. */
  budgets?: readonly SetScope[];
  leaseMs: Milliseconds;
  /** For the ledger row if the lease expires unsettled. */
  userId?: string;
  keyId?: string;
  toolName?: string;
  source?: string;
  parentCallId?: string;
  /** Other calls spend in the request with this call's id, so it needs a counter. */
  sharesRequest?: boolean;
  /** Asks for a shared lease of at most the given amounts, and at most a hundredth of the rest of every limit. */
  shared?: { leastMicroUsd: MicroUsd };
  /** Units in which the call holds twice the largest amount that its tool was charged, unless the tool is known to report nothing. */
  estimates?: { microUsd: boolean; tokens: boolean };
}

/** The grant of a shared lease, and whether limits apply to it. */
export interface SharedGrant extends Amount {
  limitsMicroUsd: boolean;
  limitsTokens: boolean;
}

/**
 * Result of a reservation. `BUDGET_UNAVAILABLE`: the outbox to the ledger is full, too little is left for a shared lease, or other calls
 * of the tool run before anything is known of it (`turn`). A call that was already charged is refused as
 * BUDGET_EXCEEDED with scope `call:<id>`, because no id is charged twice.
 */
export type Admission =
  | {
      admitted: true;
      shared?: SharedGrant;
      /** Of a call with `estimates`: whether it holds one. */
      estimated?: boolean;
    }
  | {
      admitted: false;
      code: Refusal['code'] | 'BUDGET_UNAVAILABLE';
      scope: string;
      limit: number;
      used: number;
      /** The part of `used` in shared leases and estimates. */
      usedByLeases?: number;
    };

/** Actual usage of one call. */
export interface Settlement extends Amount {
  callId: string;
  scopes: BudgetScopes;
  budgets?: readonly SetScope[];
  /** The ledger row as JSON, empty for none. The store does not read it; the drain adds the charged amounts. */
  row: string;
  /** The share of a shared lease that the call had. */
  lease?: Amount & { id: string };
  /** Its tool, if the amounts tell what other calls of it may cost. */
  toolName?: string;
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

/**
 * Leases and counters of tenants. Every method is atomic per tenant and uses the clock of the store. A lease that expires unsettled
 * is charged in full, so a crash can overcount but never overspend. Calls that draw on a shared lease each take their share out of it;
 * the rest is charged when it expires. Infrastructure failures reject.
 */
export abstract class ReservationStore {
  /** Admits or refuses each request in order. An open lease of the same call is admitted again without holding twice. */
  abstract reserve(
    tenantId: string,
    limits: TenantLimits,
    requests: readonly ReservationRequest[],
  ): Promise<Admission[]>;
  /**
   * Replaces leases by actual usage, once per call id. Usage without a lease is charged unchanged. A call whose shared lease has
   * expired gets its row without an amount, because the charge of the lease includes it.
   * @param costOverrun charges more money than was leased, as settled; otherwise at most the lease
   */
  abstract settle(tenantId: string, settlements: readonly Settlement[], costOverrun?: boolean): Promise<SettleOutcome>;
  /** Releases leases in full. Returns how many there were. */
  abstract release(tenantId: string, callIds: readonly string[]): Promise<number>;
  /** Charges expired leases and removes unused scopes. */
  abstract sweep(tenantId: string): Promise<SweepOutcome>;
  /**
   * Raises counters that are below the sums of the ledger. That happens when the store was restored from an older copy or a lagging
   * replica took over. Returns how many scopes were raised.
   */
  abstract catchUp(tenantId: string): Promise<number>;
  /** Removes counters that nothing is limited by any more. */
  abstract forget(tenantId: string, scopes: readonly string[]): Promise<void>;
  /** Counters of the tenant, its current day and the named scopes. */
  abstract counters(tenantId: string, scopes: readonly NamedScope[]): Promise<ScopeCounters[]>;
}

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

/** Durable stream of charged rows to the ledger, written in the same atomic step as the charge. */
export abstract class UsageOutbox {
  /** Tenants that may have rows. */
  abstract tenants(): Promise<string[]>;
  /** Reads the oldest entries without removing them. @param afterId skips entries up to this one */
  abstract read(tenantId: string, maxEntries: number, afterId?: string): Promise<OutboxEntry[]>;
  /** Removes entries that are in the ledger. May be repeated. */
  abstract acknowledge(tenantId: string, entries: readonly OutboxEntry[]): Promise<void>;
  /** Deletes everything that Redis has about the budget of a tenant, or only looks; returns the number of keys. Drain it first. */
  abstract eraseTenant(tenantId: string, dryRun: boolean): Promise<number>;
}
