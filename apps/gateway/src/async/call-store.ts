import type { CallBody, CallProgress, CallState, EpochMs } from '@toolfleet/contracts';

/** What is known of an asynchronous call. */
export interface StoredCall {
  callId: string;
  tenantId: string;
  tool: string;
  /** Who made it (`makerOf`); absent for calls that only the journal knows. */
  maker?: string;
  state: CallState;
  acceptedAt: EpochMs;
  finishedAt?: EpochMs;
  /** Body of the finished call; a refusal is in it as a failure, too. */
  result?: CallBody;
}

/**
 * One event of a call, in order; `id` is what `Last-Event-ID` resumes after. The body in `done` goes without rich content, of
 * which it has the number in `metadata.content_blocks`: that is in the record.
 */
export type CallEvent =
  | { id: string; type: 'accepted' | 'started' }
  | ({ id: string; type: 'progress' } & CallProgress)
  | { id: string; type: 'done'; state: CallState; result?: CallBody };

/** An event before it has an id. */
export type NewCallEvent = CallEvent extends infer E ? (E extends CallEvent ? Omit<E, 'id'> : never) : never;

/** Where asynchronous calls are kept for their readers, until `CALL_RESULT_TTL_SECONDS` after their end. */
export abstract class CallStore {
  /** Enters a call. */
  abstract create(call: StoredCall): Promise<void>;
  /** The call of this id, whoever owns it; null when there is none. */
  abstract get(callId: string): Promise<StoredCall | null>;
  /**
   * Notes that a worker has begun. False when the call has ended already: its job was delivered again because the queue did
   * not hear of that end, and nothing is left to do.
   */
  abstract begin(callId: string): Promise<boolean>;
  abstract append(callId: string, event: NewCallEvent): Promise<void>;
  /** Events after `afterId`, oldest first. */
  abstract events(callId: string, afterId?: string): Promise<CallEvent[]>;
  /** Ends a call once: the first end stays. True when this was it. */
  abstract finish(callId: string, state: CallState, result?: CallBody): Promise<boolean>;
}
