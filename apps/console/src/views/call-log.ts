import type { RecentCallStatus, RecentCall } from '@toolfleet/client';

/** Calls kept on the page. */
export const MOST_KEPT = 500;

/** Newest first, each once, however often a stream repeats it after a reconnect. */
export function withCalls(known: readonly RecentCall[], news: readonly RecentCall[]): RecentCall[] {
  const ids = new Set(known.map(({ call_id: id, cursor }) => `${id} ${cursor}`));
  const fresh = news.filter(({ call_id: id, cursor }) => !ids.has(`${id} ${cursor}`));
  if (fresh.length === 0) return known as RecentCall[];
  return [...fresh.toReversed(), ...known].slice(0, MOST_KEPT);
}

/** The cursor a stream goes on from. */
export const newestCursor = (calls: readonly RecentCall[]): string | undefined => calls[0]?.cursor;

/** What of the calls is shown. Empty texts show all. */
export interface CallFilter {
  text: string;
  status: '' | RecentCallStatus;
  door: string;
}

/** Calls that fit: text in tool, ids, user, tenant or code. */
export function filterCalls(calls: readonly RecentCall[], { text, status, door }: CallFilter): RecentCall[] {
  const wanted = text.trim().toLowerCase();
  return calls.filter(
    (call) =>
      (status === '' || call.status === status) &&
      (door === '' || call.door === door) &&
      (wanted === '' || searchable(call).includes(wanted)),
  );
}

const searchable = (call: RecentCall): string =>
  [call.tool, call.call_id, call.trace_id, call.user_id, call.tenant_id, call.code].join(' ').toLowerCase();
