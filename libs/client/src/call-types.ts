import type { CallBody, CallState, JsonObject } from '@toolfleet/contracts';
import type { CallFieldsOn } from '@toolfleet/contracts/call-fields';

/** Chooses the toolset of one request. */
export type ToolsetOption = {
  /** Toolset instead of that of the client: `support`, or `support@3` for one version. */
  toolset?: string;
};

/** Options that the client applies itself. */
interface WaitOptions extends ToolsetOption {
  /** Stops waiting and, where the transport supports it, cancels the call. */
  signal?: AbortSignal;
  /** Longest wait for the response in milliseconds; default 125,000 (the gateway's own limit is 120 s). */
  waitMs?: number;
}

/** Options of a call in addition to its tool and arguments. All but those of the client travel with the request. */
export type CallOptions = Omit<CallFieldsOn<'http'>, 'mode'> & WaitOptions;

/** Options of a batch: fields for all its items, and how many run at once (`parallel: false` for one after the other). */
export type BatchOptions = CallFieldsOn<'http-batch'> & WaitOptions;

/** One call of a batch. Its fields take precedence over the options of the batch. */
export interface BatchItem extends CallFieldsOn<'batch-item'> {
  name: string;
  arguments: JsonObject;
}

/** A tool as `GET /api/v1/tools` lists it. */
export interface ListedTool {
  name: string;
  description: string;
  category: string;
  version: string;
  /** JSON Schema of the arguments. */
  parameters: JsonObject;
  timeout_seconds: number;
  /** USD per call. */
  cost_per_use: number;
  /** False while no executor serves the tool; otherwise absent. */
  available?: boolean;
  tags?: string[];
}

/** An asynchronous call: `GET /api/v1/calls/:id`. `result` is present once the status is final. */
export interface CallStatus {
  call_id: string;
  tool: string;
  status: CallState;
  /** As sent, up to 16 KiB; for the caller that made it and administrators of its tenant. */
  arguments?: JsonObject;
  accepted_at?: string;
  finished_at?: string;
  result?: CallBody;
}

/** Statuses that never change again. */
export const FINAL_STATUSES: ReadonlySet<CallState> = new Set([
  'succeeded',
  'failed',
  'cancelled',
  'expired',
  'outcome_unknown',
]);

/** Separates the options that travel in the body from those that the client applies itself. */
export function splitOptions({ signal, waitMs = 125_000, toolset, ...fields }: CallOptions | BatchOptions): {
  fields: JsonObject;
  signal?: AbortSignal;
  waitMs: number;
  toolset?: string;
} {
  return { fields: fields as JsonObject, waitMs, signal, toolset };
}
