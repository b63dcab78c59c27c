import {
  isJsonObject,
  ToolError,
  type BudgetLimits,
  type BudgetRelease,
  type BudgetReserve,
  type BudgetScopes,
  type BudgetSettle,
  type BudgetUsage,
} from '@toolfleet/contracts';
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

/** @throws ToolError REQUEST_INVALID naming the place. */
export function readReserve(body: unknown): BudgetReserve {
  const asks = listOf(body, 'asks');
  for (const [index, ask] of asks.entries()) {
    const place = `asks[${index}]`;
    const fields = objectOf(ask, place);
    id(fields['call_id'], `${place}.call_id`);
    scopes(fields['scopes'], `${place}.scopes`);
    whole(fields['micro_usd'], `${place}.micro_usd`);
    whole(fields['tokens'], `${place}.tokens`);
    const lease = whole(fields['lease_ms'], `${place}.lease_ms`);
    if (lease < 1 || lease > MOST_LEASE_MS) fault(`${place}.lease_ms`, `from 1 to ${MOST_LEASE_MS}`);
    optionalText(fields['user_id'], `${place}.user_id`);
    optionalText(fields['tool_name'], `${place}.tool_name`);
  }
  return body as BudgetReserve;
}

/** @throws ToolError REQUEST_INVALID naming the place. */
export function readSettle(body: unknown): BudgetSettle {
  const settlements = listOf(body, 'settlements');
  for (const [index, settlement] of settlements.entries()) {
    const place = `settlements[${index}]`;
    const fields = objectOf(settlement, place);
    const callId = id(fields['call_id'], `${place}.call_id`);
    const tenantId = scopes(fields['scopes'], `${place}.scopes`);
    whole(fields['micro_usd'], `${place}.micro_usd`);
    whole(fields['tokens'], `${place}.tokens`);
    const row = objectOf(fields['row'], `${place}.row`);
    if (row['call_id'] !== callId) fault(`${place}.row.call_id`, 'the call_id of the settlement');
    if (row['tenant_id'] !== tenantId) fault(`${place}.row.tenant_id`, 'the tenant of the settlement');
    id(row['user_id'], `${place}.row.user_id`);
    id(row['tool_name'], `${place}.row.tool_name`);
    whole(row['tokens'], `${place}.row.tokens`);
    whole(row['at'], `${place}.row.at`);
  }
  return body as BudgetSettle;
}

/** @throws ToolError REQUEST_INVALID naming the place. */
export function readRelease(body: unknown): BudgetRelease {
  for (const [index, release] of listOf(body, 'releases').entries()) {
    const fields = objectOf(release, `releases[${index}]`);
    id(fields['call_id'], `releases[${index}].call_id`);
    scopes(fields['scopes'], `releases[${index}].scopes`);
  }
  return body as BudgetRelease;
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
