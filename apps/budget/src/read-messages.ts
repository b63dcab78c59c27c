import { isJsonObject, ToolError } from '@toolfleet/contracts';
import { isPlainId, MAX_ID_LENGTH } from '@toolfleet/contracts/text';
import {
  SHARED_LEASE_PREFIX,
  type BudgetLimits,
  type BudgetRelease,
  type BudgetScopes,
  type BudgetUsage,
  type ReserveRequest,
  type SettleRequest,
} from '@toolfleet/contracts/budget';
import { USAGE_GROUPS } from './usage-ledger.js';

/*
 * Readers of the budget's NATS messages. They are hand-written instead of compiled from a schema, because they run for every call of
 * the fleet. Ids become parts of Redis keys and of packed values, so control characters are refused.
 */

/** Most entries per message; senders split larger ones. */
const MAX_ENTRIES = 5_000;
const MAX_LEASE_MS = 7 * 24 * 3_600_000;
const TENANT = /^[A-Za-z0-9_.@:-]{1,128}$/;

/** Valid and invalid entries of a message. An invalid entry does not affect the others. */
interface ReadEntries<T> {
  valid: T[];
  invalid: { entry: T; callId: string; field: string }[];
}

/** @throws ToolError REQUEST_INVALID when the message has no list of entries */
export function readReserve(body: unknown): ReadEntries<ReserveRequest> {
  return read<ReserveRequest>(readList(body, 'asks'), (fields) => {
    checkCall(fields);
    readInteger(fields['micro_usd'], 'micro_usd');
    readInteger(fields['tokens'], 'tokens');
    const lease = readInteger(fields['lease_ms'], 'lease_ms');
    if (lease < 1 || lease > MAX_LEASE_MS) invalid('lease_ms', `from 1 to ${MAX_LEASE_MS}`);
    optionalId(fields['user_id'], 'user_id');
    optionalId(fields['tool_name'], 'tool_name');
    optionalId(fields['parent_call_id'], 'parent_call_id');
    const shared = fields['shared'] === undefined ? undefined : readObject(fields['shared'], 'shared');
    if (shared) readInteger(shared['least_micro_usd'], 'shared.least_micro_usd');
    checkPrefix(fields['call_id'], shared !== undefined, 'call_id');
  });
}

/** @throws ToolError REQUEST_INVALID when the message has no list of entries */
export function readSettle(body: unknown): ReadEntries<SettleRequest> {
  return read<SettleRequest>(readList(body, 'settlements'), (fields) => {
    const { callId, tenantId } = checkCall(fields);
    readInteger(fields['micro_usd'], 'micro_usd');
    readInteger(fields['tokens'], 'tokens');
    const lease = fields['lease'] === undefined ? undefined : readObject(fields['lease'], 'lease');
    if (lease) {
      checkPrefix(id(lease['id'], 'lease.id'), true, 'lease.id');
      readInteger(lease['micro_usd'], 'lease.micro_usd');
      readInteger(lease['tokens'], 'lease.tokens');
    }
    if (lease && fields['row'] === undefined) return;
    const row = readObject(fields['row'], 'row');
    if (row['call_id'] !== callId) invalid('row.call_id', 'the call_id of the settlement');
    if (row['tenant_id'] !== tenantId) invalid('row.tenant_id', 'the tenant of the settlement');
    id(row['user_id'], 'row.user_id');
    id(row['tool_name'], 'row.tool_name');
    optionalId(row['parent_call_id'], 'row.parent_call_id');
    readInteger(row['tokens'], 'row.tokens');
    readInteger(row['at'], 'row.at');
  });
}

/** @throws ToolError REQUEST_INVALID when the message has no list of entries */
export function readRelease(body: unknown): ReadEntries<BudgetRelease['releases'][number]> {
  return read(readList(body, 'releases'), (fields) => void checkCall(fields));
}

function read<T>(entries: unknown[], check: (fields: Record<string, unknown>) => void): ReadEntries<T> {
  const result: ReadEntries<T> = { valid: [], invalid: [] };
  for (const entry of entries) {
    try {
      check(readObject(entry, 'entry'));
      result.valid.push(entry as T);
    } catch (error) {
      if (!(error instanceof InvalidField)) throw error;
      const callId = isJsonObject(entry) && typeof entry['call_id'] === 'string' ? entry['call_id'] : '';
      result.invalid.push({ entry: entry as T, callId, field: error.field });
    }
  }
  return result;
}

function checkCall(fields: Record<string, unknown>): { callId: string; tenantId: string } {
  return { callId: id(fields['call_id'], 'call_id'), tenantId: scopes(fields['scopes'], 'scopes') };
}

/** @throws ToolError REQUEST_INVALID naming the field */
export function readUsage(body: unknown): BudgetUsage {
  const fields = readObject(body, 'body');
  if (fields['tenant_id'] !== '*') tenant(fields['tenant_id'], 'tenant_id');
  if (fields['from_at'] !== undefined) readInteger(fields['from_at'], 'from_at');
  if (fields['to_at'] !== undefined) readInteger(fields['to_at'], 'to_at');
  optionalId(fields['tool_name'], 'tool_name');
  optionalId(fields['user_id'], 'user_id');
  const groups = fields['group_by'];
  const legal: readonly unknown[] = USAGE_GROUPS;
  if (!Array.isArray(groups) || groups.some((group) => !legal.includes(group))) {
    invalid('group_by', `an array of ${USAGE_GROUPS.join(', ')}`);
  }
  return { ...(body as BudgetUsage), group_by: [...new Set((body as BudgetUsage).group_by)] };
}

/** @throws ToolError REQUEST_INVALID naming the field */
export function readLimits(body: unknown): BudgetLimits {
  const fields = readObject(readObject(body, 'body')['scopes'], 'scopes');
  tenant(fields['tenant_id'], 'scopes.tenant_id');
  for (const key of ['request_id', 'agent_id', 'task_id']) {
    if (fields[key] !== undefined) id(fields[key], `scopes.${key}`);
  }
  return body as BudgetLimits;
}

function scopes(value: unknown, place: string): BudgetScopes['tenant_id'] {
  const fields = readObject(value, place);
  id(fields['request_id'], `${place}.request_id`);
  if (fields['agent_id'] !== undefined) id(fields['agent_id'], `${place}.agent_id`);
  if (fields['task_id'] !== undefined) id(fields['task_id'], `${place}.task_id`);
  return tenant(fields['tenant_id'], `${place}.tenant_id`);
}

function readList(body: unknown, key: string): unknown[] {
  const list = readObject(body, 'body')[key];
  if (!Array.isArray(list)) invalid(key, 'an array');
  if (list.length > MAX_ENTRIES) invalid(key, `at most ${MAX_ENTRIES} entries`);
  return list;
}

function readObject(value: unknown, place: string): Record<string, unknown> {
  if (!isJsonObject(value)) invalid(place, 'an object');
  return value;
}

function tenant(value: unknown, place: string): string {
  if (typeof value !== 'string' || !TENANT.test(value)) invalid(place, 'a tenant id');
  return value;
}

function id(value: unknown, place: string): string {
  if (!isPlainId(value)) invalid(place, `a string of 1 to ${MAX_ID_LENGTH} characters without control characters`);
  return value;
}

/** Only shared leases have ids that start with their prefix: the scripts tell them from leases of calls by it. */
function checkPrefix(value: unknown, isShared: boolean, place: string): void {
  if (String(value).startsWith(SHARED_LEASE_PREFIX) === isShared) return;
  invalid(place, `an id that ${isShared ? 'starts' : 'does not start'} with ${SHARED_LEASE_PREFIX}`);
}

function optionalId(value: unknown, place: string): void {
  if (value !== undefined) id(value, place);
}

function readInteger(value: unknown, place: string): number {
  if (!Number.isSafeInteger(value) || (value as number) < 0) invalid(place, 'a non-negative integer');
  return value as number;
}

class InvalidField extends ToolError {
  constructor(
    readonly field: string,
    wanted: string,
  ) {
    super('REQUEST_INVALID', { message: `${field} must be ${wanted}`, details: { field } });
  }
}

function invalid(place: string, wanted: string): never {
  throw new InvalidField(place, wanted);
}
