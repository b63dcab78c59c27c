import { isJsonObject, isToolError, ToolError } from '@toolfleet/contracts';
import type {
  BudgetLimits,
  BudgetRelease,
  BudgetScopes,
  BudgetUsage,
  ReserveRequest,
  SettleRequest,
} from '@toolfleet/contracts/budget';
import { USAGE_GROUPS } from './usage-store.js';

/**
 * Readers of the messages of this service. Written out rather than compiled from a schema, because they run for every call
 * of the fleet. Ids become parts of Redis keys and of packed values, so control characters and braces are refused.
 */

/** Most entries of one message; senders split above it. */
const MOST_ENTRIES = 5_000;
const MOST_LEASE_MS = 7 * 24 * 3_600_000;
const TENANT = /^[A-Za-z0-9_.@:-]{1,128}$/;
const MOST_ID = 256;

/** Entries of a message that can be worked on, and those that cannot. One bad entry never costs the others. */
export interface ReadEntries<T> {
  good: T[];
  bad: { entry: T; callId: string; field: string }[];
}

/** @throws ToolError REQUEST_INVALID when there is no list at all. */
export function readReserve(body: unknown): ReadEntries<ReserveRequest> {
  return read<ReserveRequest>(listOf(body, 'asks'), (fields) => {
    checkCall(fields);
    whole(fields['micro_usd'], 'micro_usd');
    whole(fields['tokens'], 'tokens');
    const lease = whole(fields['lease_ms'], 'lease_ms');
    if (lease < 1 || lease > MOST_LEASE_MS) fault('lease_ms', `from 1 to ${MOST_LEASE_MS}`);
    optionalText(fields['user_id'], 'user_id');
    optionalText(fields['tool_name'], 'tool_name');
    optionalText(fields['parent_call_id'], 'parent_call_id');
  });
}

/** @throws ToolError REQUEST_INVALID when there is no list at all. */
export function readSettle(body: unknown): ReadEntries<SettleRequest> {
  return read<SettleRequest>(listOf(body, 'settlements'), (fields) => {
    const { callId, tenantId } = checkCall(fields);
    whole(fields['micro_usd'], 'micro_usd');
    whole(fields['tokens'], 'tokens');
    const row = objectOf(fields['row'], 'row');
    if (row['call_id'] !== callId) fault('row.call_id', 'the call_id of the settlement');
    if (row['tenant_id'] !== tenantId) fault('row.tenant_id', 'the tenant of the settlement');
    id(row['user_id'], 'row.user_id');
    id(row['tool_name'], 'row.tool_name');
    optionalText(row['parent_call_id'], 'row.parent_call_id');
    whole(row['tokens'], 'row.tokens');
    whole(row['at'], 'row.at');
  });
}

/** @throws ToolError REQUEST_INVALID when there is no list at all. */
export function readRelease(body: unknown): ReadEntries<BudgetRelease['releases'][number]> {
  return read(listOf(body, 'releases'), (fields) => void checkCall(fields));
}

function read<T>(entries: unknown[], check: (fields: Record<string, unknown>) => void): ReadEntries<T> {
  const result: ReadEntries<T> = { good: [], bad: [] };
  for (const entry of entries) {
    try {
      check(objectOf(entry, 'entry'));
      result.good.push(entry as T);
    } catch (error) {
      if (!isToolError(error)) throw error;
      const callId = isJsonObject(entry) && typeof entry['call_id'] === 'string' ? entry['call_id'] : '';
      result.bad.push({ entry: entry as T, callId, field: String(error.details?.['field'] ?? '') });
    }
  }
  return result;
}

function checkCall(fields: Record<string, unknown>): { callId: string; tenantId: string } {
  return { callId: id(fields['call_id'], 'call_id'), tenantId: scopes(fields['scopes'], 'scopes') };
}

/** @throws ToolError REQUEST_INVALID naming the place. */
export function readUsage(body: unknown): BudgetUsage {
  const fields = objectOf(body, 'body');
  if (fields['tenant_id'] !== '*') tenant(fields['tenant_id'], 'tenant_id');
  if (fields['from_at'] !== undefined) whole(fields['from_at'], 'from_at');
  if (fields['to_at'] !== undefined) whole(fields['to_at'], 'to_at');
  optionalText(fields['tool_name'], 'tool_name');
  optionalText(fields['user_id'], 'user_id');
  const groups = fields['group_by'];
  const legal: readonly unknown[] = USAGE_GROUPS;
  if (!Array.isArray(groups) || groups.some((group) => !legal.includes(group))) {
    fault('group_by', `a list of ${USAGE_GROUPS.join(', ')}`);
  }
  return { ...(body as BudgetUsage), group_by: [...new Set((body as BudgetUsage).group_by)] };
}

/** @throws ToolError REQUEST_INVALID naming the place. */
export function readLimits(body: unknown): BudgetLimits {
  const fields = objectOf(objectOf(body, 'body')['scopes'], 'scopes');
  tenant(fields['tenant_id'], 'scopes.tenant_id');
  for (const key of ['request_id', 'agent_id', 'task_id']) {
    if (fields[key] !== undefined) id(fields[key], `scopes.${key}`);
  }
  return body as BudgetLimits;
}

function scopes(value: unknown, place: string): BudgetScopes['tenant_id'] {
  const fields = objectOf(value, place);
  id(fields['request_id'], `${place}.request_id`);
  if (fields['agent_id'] !== undefined) id(fields['agent_id'], `${place}.agent_id`);
  if (fields['task_id'] !== undefined) id(fields['task_id'], `${place}.task_id`);
  return tenant(fields['tenant_id'], `${place}.tenant_id`);
}

function listOf(body: unknown, key: string): unknown[] {
  const list = objectOf(body, 'body')[key];
  if (!Array.isArray(list)) fault(key, 'a list');
  if (list.length > MOST_ENTRIES) fault(key, `at most ${MOST_ENTRIES} entries`);
  return list;
}

function objectOf(value: unknown, place: string): Record<string, unknown> {
  if (!isJsonObject(value)) fault(place, 'an object');
  return value;
}

function tenant(value: unknown, place: string): string {
  if (typeof value !== 'string' || !TENANT.test(value)) fault(place, 'a tenant id');
  return value;
}

function id(value: unknown, place: string): string {
  if (typeof value !== 'string' || value.length === 0 || value.length > MOST_ID || hasControl(value)) {
    fault(place, `a text of 1 to ${MOST_ID} characters without control characters`);
  }
  return value;
}

function optionalText(value: unknown, place: string): void {
  if (value !== undefined) id(value, place);
}

function hasControl(text: string): boolean {
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code < 32 || code === 127) return true;
  }
  return false;
}

function whole(value: unknown, place: string): number {
  if (!Number.isSafeInteger(value) || (value as number) < 0) fault(place, 'a whole number, 0 or more');
  return value as number;
}

function fault(place: string, wanted: string): never {
  throw new ToolError('REQUEST_INVALID', { message: `${place} must be ${wanted}`, details: { field: place } });
}
