import { ToolError } from '../errors/tool-error.js';
import { isJsonObject } from '../json.js';

/**
 * `registry.purge`, `workspace.purge`, `budget.purge`: a service removes what it stores about a tenant or one of its users. A service
 * works for some seconds per request; the caller repeats the request while `more` is true. Repeating it is always safe.
 */
export interface PurgeMessage {
  tenant_id: string;
  /** Only the data of this user. */
  user_id?: string;
  /** Only counts. */
  dry_run: boolean;
  /** Replaces the id of the tenant or user in the ledger, whose amounts stay. */
  pseudonym: string;
}

export interface PurgeReply {
  /** What was removed or rewritten by this request, or what a dry run found, by kind. */
  counts: Record<string, number>;
  more: boolean;
}

/** Longest time that a service works on one purge request. */
export const PURGE_TURN_MS = 10_000;

/** Reads a purge request. @throws ToolError REQUEST_INVALID naming the field */
export function readPurge(body: unknown): PurgeMessage {
  const { tenant_id, user_id, dry_run, pseudonym } = isJsonObject(body) ? body : {};
  if (!isId(tenant_id)) throw invalid('tenant_id', 'a string of 1 to 200 characters');
  if (user_id !== undefined && !isId(user_id)) throw invalid('user_id', 'a string of 1 to 200 characters');
  if (typeof dry_run !== 'boolean') throw invalid('dry_run', 'true or false');
  if (typeof pseudonym !== 'string' || !/^purged-[0-9a-f-]{8,40}$/.test(pseudonym))
    throw invalid('pseudonym', '"purged-" and 8 to 40 hexadecimal digits');
  return { tenant_id, user_id, dry_run, pseudonym };
}

function isId(value: unknown): value is string {
  return typeof value === 'string' && value.length > 0 && value.length <= 200;
}

function invalid(field: string, wanted: string): ToolError {
  return new ToolError('REQUEST_INVALID', { message: `${field} must be ${wanted}`, details: { field } });
}
