import type { FinishedCall } from '@toolfleet/client';

/** Calls kept on the page while new ones arrive. */
export const MAX_KEPT = 500;

/** Finished calls, newest first. `next`: cursor of the page of older calls; undefined after the last one. */
export interface CallPages {
  calls: readonly FinishedCall[];
  next: string | undefined;
}

/**
 * Adds calls that ended since, in the order of their ends. Each call is shown once, by its last record: a stream repeats calls
 * after a reconnect. Calls beyond `MAX_KEPT` are dropped, and loaded again as older calls.
 */
export function withNewCalls(known: CallPages, news: readonly FinishedCall[]): CallPages {
  const cursors = new Map(known.calls.map(({ call_id: id, cursor }) => [id, cursor]));
  const fresh = new Map<string, FinishedCall>();
  for (const call of news.toReversed()) {
    if (!fresh.has(call.call_id) && cursors.get(call.call_id) !== call.cursor) fresh.set(call.call_id, call);
  }
  if (fresh.size === 0) return known;
  const calls = [...fresh.values(), ...known.calls.filter(({ call_id: id }) => !fresh.has(id))];
  if (calls.length <= MAX_KEPT) return { ...known, calls };
  return { calls: calls.slice(0, MAX_KEPT), next: calls[MAX_KEPT - 1]!.cursor };
}

/** Adds a page of older calls, oldest first. */
export function withOlderCalls(
  known: CallPages,
  page: { calls: readonly FinishedCall[]; next?: string | undefined },
): CallPages {
  const ids = new Set(known.calls.map(({ call_id: id }) => id));
  const older = page.calls.filter(({ call_id: id }) => !ids.has(id)).toReversed();
  return { calls: [...known.calls, ...older], next: page.next };
}

/** A row of the list: a call, and how many of the listed calls it was made within. */
interface ListedCall {
  call: FinishedCall;
  depth: number;
}

/** Calls in their order. Calls that a tool made are below the call of the tool if it is listed, in the order of their ends. */
export function toRows(calls: readonly FinishedCall[]): ListedCall[] {
  const ids = new Set(calls.map(({ call_id: id }) => id));
  const isNested = ({ parent_call_id: parent }: FinishedCall) => parent !== undefined && ids.has(parent);
  const made = Map.groupBy(calls.filter(isNested).toReversed(), (call) => call.parent_call_id);
  const nest = (call: FinishedCall, depth: number): ListedCall[] => [
    { call, depth },
    ...(made.get(call.call_id) ?? []).flatMap((child) => nest(child, depth + 1)),
  ];
  return calls.filter((call) => !isNested(call)).flatMap((call) => nest(call, 0));
}
