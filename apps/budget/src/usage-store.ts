import type { EpochMs } from '@toolfleet/contracts';
import type { UsageRow, UsageSum } from '@toolfleet/contracts/budget';
import type { LedgerSum } from './reservation-store.js';

/** One row of the ledger: the usage of a call as it was charged. */
export interface LedgerRow extends UsageRow {
  kind: 'settled' | 'expired';
  /** Instant of the charge, time of the reservation store. */
  charged_at: EpochMs;
}

/** What a usage report asks for. */
export interface UsageQuery {
  /** Absent: every tenant. */
  tenantId?: string;
  fromAt?: EpochMs;
  toAt?: EpochMs;
  toolName?: string;
  userId?: string;
  groupBy: readonly UsageGroup[];
}
export const USAGE_GROUPS = ['day', 'tool', 'user', 'agent', 'tenant'] as const;
export type UsageGroup = (typeof USAGE_GROUPS)[number];

/** The ledger of record: append-only rows, one per call. */
export abstract class UsageStore {
  /** Brings the schema up to date and opens the ledger. */
  abstract open(): Promise<void>;
  /** Adds rows; a row whose call is in the ledger already is skipped, so repeats are harmless. Durable when it resolves. */
  abstract append(rows: readonly LedgerRow[]): Promise<void>;
  /** Sums per group, ordered by group. Days are UTC days of the charge. */
  abstract sums(query: UsageQuery): Promise<UsageSum[]>;
  /**
   * What a tenant has spent: in all, on the UTC day of `now` (scope `today`), and per request, agent and task since `since`.
   * Tokens are the real ones.
   */
  abstract spentSince(tenantId: string, now: EpochMs, since: EpochMs): Promise<LedgerSum[]>;
  abstract close(): Promise<void>;
}
