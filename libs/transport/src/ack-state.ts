/** How far a call of the ack-first hop is. `fence` is the latest send's; `acked`, whether an executor has accepted that send. */
export type AckState =
  /** Sent. Without an acknowledgement in time it becomes overdue. */
  | { kind: 'sent'; fence: number; acked: false }
  /** Overdue: the fence is being raised for another send. */
  | { kind: 'raising'; fence: number; acked: boolean }
  /** An executor has accepted or claimed it: only a reply, the deadline or its silence ends the wait. */
  | { kind: 'held'; fence: number; acked: boolean }
  | { kind: 'ended'; fence: number; acked: boolean };

/**
 * `raised`: the fence that the next send has. `claimed`: raising it was refused. `not raised`: it could not be tried. `silent`: the
 * executor that holds the call has not reported for too long.
 */
export type AckEvent = { raised: number } | 'acknowledged' | 'overdue' | 'silent' | 'claimed' | 'not raised' | 'ended';

/** The state after an event; the same one where the event means nothing to it. */
export function advance(state: AckState, event: AckEvent, journalled: boolean): AckState {
  const { kind, fence, acked } = state;
  if (kind === 'ended') return state;
  if (event === 'ended') return { kind: 'ended', fence, acked };
  if (event === 'acknowledged') return { kind: kind === 'raising' ? kind : 'held', fence, acked: true };
  if (event === 'overdue') return kind === 'sent' ? { kind: 'raising', fence, acked } : state;
  if (event === 'silent') return kind === 'held' ? { kind: 'raising', fence, acked: false } : state;
  if (kind !== 'raising') return state;
  // Race: an acknowledgement arrived while the fence was being raised. With a journal that member's claim is refused now, so the
  // message is sent again; without one the member does the work.
  if (typeof event === 'object' && (journalled || !acked)) return { kind: 'sent', fence: event.raised, acked: false };
  // Without a new fence a second send could run the effect twice, so raising is tried again.
  if (event === 'not raised' && !acked) return { kind: 'sent', fence, acked };
  return { kind: 'held', fence, acked };
}
