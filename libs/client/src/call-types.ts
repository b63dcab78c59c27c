import type { CallBody, JsonObject } from '@toolfleet/contracts';
import type { CallFieldsOn } from '@toolfleet/contracts/call-fields';

/** Facts of a call beside tool and arguments, as they travel. */
export type CallOptions = Omit<CallFieldsOn<'http'>, 'mode'> & {
  /** Ends the waiting, and the call where the door supports it. */
  signal?: AbortSignal;
  /** Longest wait for the answer in ms; default 125,000 (the gateway's own limit is 120 s). */
  waitMs?: number;
};

/** One call of a batch. */
export interface BatchItem {
  name: string;
  arguments: JsonObject;
}

/** A tool as listed. Fields are those of the published metadata. */
export interface ListedTool extends JsonObject {
  name: string;
  description: string;
}

/** An asynchronous call. `result` is there once the status is final. */
export interface CallStatus {
  call_id: string;
  tool: string;
  status: 'accepted' | 'claimed' | 'succeeded' | 'failed' | 'cancelled' | 'expired' | 'outcome_unknown';
  accepted_at?: string;
  finished_at?: string;
  result?: CallBody;
}

/** Statuses that do not change any more. */
export const FINAL_STATUSES: ReadonlySet<CallStatus['status']> = new Set([
  'succeeded',
  'failed',
  'cancelled',
  'expired',
  'outcome_unknown',
]);

/** Sum of usage of one group. */
export interface UsageRow {
  day?: string;
  tool_name?: string;
  user_id?: string;
  agent_id?: string;
  calls: number;
  tokens: number;
  cost_usd: number;
}

/** Splits what travels in the body from what stays here. */
export function splitOptions(options: CallOptions): { fields: JsonObject; signal?: AbortSignal; waitMs: number } {
  const { signal, waitMs = 125_000, ...rest } = options;
  const fields = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined)) as JsonObject;
  return { fields, waitMs, ...(signal ? { signal } : {}) };
}
