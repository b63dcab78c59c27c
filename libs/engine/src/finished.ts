import type { CallResult, JsonObject } from '@toolfleet/contracts';
import type { CallTrace } from './call.js';
import { errorOf, isRefusal } from './outcome.js';

/**
 * Ends a call: a failure that refused it before its tool ran becomes an error again; everything else is the result, with
 * what was done to the arguments and how long was waited.
 * @throws ToolError of the refusal
 */
export function finished(seen: CallTrace, result: CallResult): CallResult {
  if (result.failure && !result.ok && isRefusal(result.failure)) throw errorOf(result.failure);
  const { coercions, dropped, waitedMs } = seen;
  if (coercions.length === 0 && dropped.length === 0 && waitedMs === 0) return result;
  const metadata: JsonObject = { ...result.metadata };
  if (coercions.length > 0) metadata.coercions = coercions.map((coercion) => ({ ...coercion }));
  if (dropped.length > 0) metadata.dropped_arguments = [...dropped];
  return { ...result, metadata, timing: { ...result.timing, wait_ms: result.timing.wait_ms + waitedMs } };
}
