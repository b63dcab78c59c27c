import type { JsonObject, Milliseconds } from '@toolfleet/contracts';

/** Why a result that a record names is not delivered; readers find it in `metadata.result_omitted`. */
export interface OmittedResult {
  /** Size of the result as JSON. */
  bytes: number;
  /**
   * `quota`: no room when the call ended; `result_store`: in the result store, which this reader does not use; `missing` and
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

/** What remains of an outcome whose payload is kept elsewhere, or not at all. */
export function omitPayload<T extends Payload>({ content: _content, ...rest }: T, omitted: OmittedResult): T {
  return { ...rest, output: null, text: '', metadata: { result_omitted: { ...omitted } } } as unknown as T;
}

/**
 * The outcome as it was before `put`. One whose object is lost says so in its text: how the call ended is known, its result is not.
 * @param stored what the record has in place of the outcome
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
  if ('text' in found) return JSON.parse(found.text) as T;
  const { bytes, reason } = found.omitted;
  const text = `The result of this call (${bytes} bytes) is ${reason} in the result store; the call itself ended as reported`;
  return { ...omitPayload(stored, found.omitted), text };
}
