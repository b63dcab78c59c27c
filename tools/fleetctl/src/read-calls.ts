import type { CallQuery } from './call-filters.js';
import { CliError } from './cli-error.js';
import type { Gateway } from './gateway.js';

/** Calls that match. @throws CliError where none are recorded */
export async function readCalls(gateway: Gateway, query: CallQuery) {
  const body = await gateway.request('GET /api/v1/calls', { query });
  if (!body.enabled) throw new CliError('This gateway records no calls (GATEWAY_CALL_SPOOL is 0)');
  return body;
}
