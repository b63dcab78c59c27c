import type { FinishedCall } from '@toolfleet/client';
import type { CallQuery } from './call-filters.js';
import { CliError } from './cli-error.js';
import type { Gateway } from './gateway.js';

/** Calls of one page that match. @throws CliError where none are recorded */
export async function readCalls(gateway: Gateway, query: CallQuery) {
  const body = await gateway.request('GET /api/v1/calls', { query });
  if (!body.enabled) throw new CliError('This gateway records no calls (GATEWAY_CALL_SPOOL is 0)');
  return body;
}

/** Largest page of the API. */
const PAGE = 500;

/** All calls that match, or the newest `most` of them. @throws CliError where none are recorded */
export async function readAllCalls(gateway: Gateway, query: CallQuery, most = Infinity): Promise<FinishedCall[]> {
  const found: FinishedCall[] = [];
  for (let before = query?.before; ;) {
    const limit = Math.min(PAGE, most - found.length);
    const { calls, next } = await readCalls(gateway, { ...query, before, limit });
    // A page has the oldest first, and the next page is older.
    found.unshift(...calls);
    if (next === undefined || found.length >= most) return found;
    before = next;
  }
}
