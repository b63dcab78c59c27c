import type { JsonObject, Milliseconds } from '@toolfleet/contracts';
import { parseExact } from '@toolfleet/contracts/json-text';

/** Smaller results are not counted: the record of the call is as large as they are. */
export const MIN_KEPT_BYTES = 1_024;

/** A result that is about to be stored. */
export interface KeptResult {
  tenantId: string;
  /** The call id, or the key of a cache entry; a ref counts once. */
  ref: string;
  bytes: number;
  /** True: the outcome of an idempotency key, never evicted. */
  keyed: boolean;
  ttlMs: Milliseconds;
}

/** Enforces the quota of kept results of each tenant. Injected by type. */
export abstract class KeptResults {
  /**
   * Call it before a call with a result to keep.
   * @throws ToolError QUOTA_EXCEEDED when nothing can be evicted for it
   */
  abstract admit(tenantId: string): Promise<void>;
  /** Counts a result and evicts the oldest unkeyed results for it. False: it does not fit and must not be stored. */
  abstract keep(result: KeptResult): Promise<boolean>;
  /** Stops counting a result that was deleted. */
  abstract drop(tenantId: string, ref: string): Promise<void>;
}

/** Why a result that a record names is not delivered; readers find it in `metadata.result_omitted`. */
export interface OmittedResult {
  /** Size of the result as JSON. */
  bytes: number;
  /**
   * `quota`: no room when the call ended; `result_store`: in the result store, unused by this reader; `missing` and
   * `damaged`: the result store has lost the object, or returned other bytes than were stored.
   */
  reason: 'quota' | 'result_store' | 'missing' | 'damaged';
}

/**
 * Keeps results outside Redis that are too large for it. The record in Redis keeps state, failure, size and a reference; what is
 * stored under a reference is the whole outcome as JSON. Objects expire with their records. Injected by type.
 */
export abstract class LargeResults {
  /**
   * Stores a result.
   * @param text JSON of the outcome
   * @param ttlMs life of the record that gets the reference
   * @returns the reference; undefined when the result belongs in Redis: it is small, or the result store is unavailable
   */
  abstract put(tenantId: string, text: string, ttlMs: Milliseconds): Promise<string | undefined>;

  /**
   * Reads a result back and checks its digest.
   * @throws ToolError SERVICE_UNAVAILABLE when the result store cannot be reached; the caller can retry
   */
  abstract get(tenantId: string, reference: string): Promise<{ text: string } | { omitted: OmittedResult }>;

  /** Deletes the object of a reference that no record has any more; failures are left to the sweep. */
  abstract delete(reference: string): Promise<void>;
}

/** The part of outcomes and bodies that this file rewrites. */
interface Payload {
  output: unknown;
  text: string;
  content?: unknown;
  metadata: JsonObject;
}

/** An outcome without its payload, which is elsewhere or dropped. */
export function omitPayload<T extends Payload>({ content: _content, ...rest }: T, omitted: OmittedResult): T {
  return { ...rest, output: null, text: '', metadata: { result_omitted: { ...omitted } } } as unknown as T;
}

/**
 * The outcome as it was before `put`. If its object is lost, its text reports that: how the call ended is known, its result is not.
 * @param stored the record's substitute for the outcome
 * @throws ToolError SERVICE_UNAVAILABLE when the result store cannot be reached
 */
export async function readLargeResult<T extends Payload>(
  large: LargeResults | undefined,
  tenantId: string,
  reference: string,
  stored: T,
): Promise<T> {
  const found = await large?.get(tenantId, reference);
  if (!found) return stored;
  if ('text' in found) return parseExact<T>(found.text).value;
  const { bytes, reason } = found.omitted;
  const text = `The result of this call (${bytes} bytes) is ${reason} in the result store; the call itself ended as reported`;
  return { ...omitPayload(stored, found.omitted), text };
}
