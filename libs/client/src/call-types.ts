import type { CallBody, CallState, Json, JsonObject } from '@toolfleet/contracts';
import type { CallFieldsOn } from '@toolfleet/contracts/call-fields';

/** The shape of the interface `Tools` that `fleetctl tools types` prints. */
export type ToolTypes<T> = { [K in keyof T]: { arguments: object; output: unknown } };

/** Tools of which nothing is known. */
export type AnyTools = Record<string, { arguments: JsonObject; output: Json }>;

/** Result of a call: `success` says whether there is an output or an error. */
export type ToolCallResult<Output = Json> = Omit<CallBody, 'success' | 'output' | 'error'> &
  ({ success: true; output: Output; error: null } | { success: false; output: Json; error: string });

/** Chooses the toolset of one request. */
export type ToolsetOption = {
  /** Toolset instead of the client's: `support`, or `support@3` for one version. */
  toolset?: string;
};

/** Options that the client applies itself. */
interface WaitOptions extends ToolsetOption {
  /** Stops waiting and, where the transport supports it, cancels the call. */
  signal?: AbortSignal;
  /** Longest wait for the response in milliseconds; default 125,000 (the gateway's own limit is 120 s). */
  waitMs?: number;
}

/** Options of a call in addition to its tool and arguments. All but the client's travel with the request. */
export type CallOptions = Omit<CallFieldsOn<'http'>, 'mode'> & WaitOptions;

/** Options of a batch: fields for all its items, and how many run at once (`parallel: false` for one after the other). */
export type BatchOptions = CallFieldsOn<'http-batch'> & WaitOptions;

export type { BatchItem } from '@toolfleet/contracts/resources';

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
