import type { FinishedCall, FinishedCallStatus, RouteRequest } from '@toolfleet/client';
import type { PlaceFilter } from '../router.js';

/** Filters, page and sums of finished calls. */
export type FinishedCallQuery = NonNullable<RouteRequest<'GET /api/v1/calls'>['query']>;

const TEXT_FILTERS = ['id', 'tool', 'user_id', 'key_id', 'code', 'tenant_id'] as const;

/** Filters of the list of calls as its address has them, by the names of the HTTP API. `from` may also be a period: `1h`. */
type CallFilter = Partial<Record<(typeof TEXT_FILTERS)[number] | 'status' | 'slower_than_ms' | 'from' | 'to', string>>;

const PERIOD = /^(\d{1,4})([mhd])$/;
const UNIT_MS: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Whether `from` is a period before now instead of an instant. */
export const isPeriod = (from: string): boolean => PERIOD.test(from);

/** The request for calls that match. Periods end at `now`, epoch ms. */
export function toCallQuery(filter: PlaceFilter & CallFilter, now: number): FinishedCallQuery {
  const { from, to, status, slower_than_ms: slowerThan } = filter;
  const [, count, unit = ''] = PERIOD.exec(from ?? '') ?? [];
  const texts = TEXT_FILTERS.flatMap((name) => (filter[name] === undefined ? [] : [[name, filter[name].trim()]]));
  return {
    ...Object.fromEntries(texts),
    status,
    slower_than_ms: slowerThan === undefined ? undefined : Number(slowerThan),
    from: count === undefined ? from : new Date(now - Number(count) * UNIT_MS[unit]!).toISOString(),
    to,
  };
}

/** Whether a call that has just ended matches a request. */
export function matchesQuery(call: FinishedCall, query: FinishedCallQuery): boolean {
  const { id = '', status, slower_than_ms: slowerThan = 0, from, to } = query;
  const endedAt = Date.parse(call.ended_at);
  return (
    call.call_id.startsWith(id) &&
    (['tool', 'user_id', 'key_id', 'code', 'tenant_id'] as const).every(
      (name) => query[name] === undefined || call[name] === query[name],
    ) &&
    (status === undefined || hasStatus(call.status, status)) &&
    call.duration_ms >= slowerThan &&
    (from === undefined || endedAt >= Date.parse(from)) &&
    (to === undefined || endedAt < Date.parse(to))
  );
}

const hasStatus = (status: FinishedCallStatus, wanted: string): boolean =>
  wanted.split(',').some((one) => one === status || (one === 'failure' && status !== 'success'));
