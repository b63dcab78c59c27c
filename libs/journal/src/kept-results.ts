import type { Milliseconds } from '@toolfleet/contracts';

/** Results smaller than this are not counted: the record of the call itself takes as much. */
export const MIN_KEPT_BYTES = 1_024;

/** A result that is about to be kept. */
export interface KeptResult {
  tenantId: string;
  /** The call id, or the key of a cache entry: what is kept under one ref counts once. */
  ref: string;
  bytes: number;
  /** True: an idempotency key promises it; it is never removed to make room. */
  keyed: boolean;
  ttlMs: Milliseconds;
}

/** The quota of kept bytes of each tenant. Injected by type. */
export abstract class KeptResults {
  /**
   * Called before a call whose result has to be kept.
   * @throws ToolError RESULT_QUOTA_EXCEEDED when nothing can be removed for it
   */
  abstract admit(tenantId: string): Promise<void>;
  /** Counts a result, removing the oldest unkeyed ones for it. False: it does not fit and must not be kept. */
  abstract keep(result: KeptResult): Promise<boolean>;
  /** The result is not kept any more. */
  abstract drop(tenantId: string, ref: string): Promise<void>;
}
