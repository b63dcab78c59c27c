import { isJsonObject, ToolError } from '@toolfleet/contracts';
import { isPlainId, MAX_ID_LENGTH } from '@toolfleet/contracts/text';
import {
  SHARED_LEASE_PREFIX,
  type BudgetRelease,
  type BudgetReserve,
  type BudgetScopes,
  type BudgetSettle,
  type ReserveRequest,
  type SettleRequest,
} from '@toolfleet/contracts/budget';

/*
 * Readers of the entries in the budget's messages. They are hand-written instead of compiled from a schema, because they run for every
 * call of the fleet and name the field that refuses one entry. Ids become parts of Redis keys and of packed values, so control
 * characters are refused.
 */

const MAX_LEASE_MS = 7 * 24 * 3_600_000;
const TENANT = /^[A-Za-z0-9_.@:-]{1,128}$/;

/** Valid and invalid entries of a message. An invalid entry does not affect the others. */
interface ReadEntries<T> {
  valid: T[];
  invalid: { entry: T; callId: string; field: string }[];
}

export function readReserve({ asks }: BudgetReserve): ReadEntries<ReserveRequest> {
  return read(asks, (fields) => {
    checkCall(fields);
    readInteger(fields['micro_usd'], 'micro_usd');
    readInteger(fields['tokens'], 'tokens');
    const lease = readInteger(fields['lease_ms'], 'lease_ms');
    if (lease < 1 || lease > MAX_LEASE_MS) invalid('lease_ms', `from 1 to ${MAX_LEASE_MS}`);
    optionalIds(fields, ['user_id', 'key_id', 'tool_name', 'source', 'parent_call_id']);
    const shared = fields['shared'] === undefined ? undefined : readObject(fields['shared'], 'shared');
    if (shared) readInteger(shared['least_micro_usd'], 'shared.least_micro_usd');
    checkPrefix(fields['call_id'], shared !== undefined, 'call_id');
  });
}

export function readSettle({ settlements }: BudgetSettle): ReadEntries<SettleRequest> {
  return read(settlements, (fields) => {
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
    optionalIds(row, ['key_id', 'source', 'parent_call_id'], 'row.');
    readInteger(row['tokens'], 'row.tokens');
    readInteger(row['at'], 'row.at');
  });
}

export function readRelease({ releases }: BudgetRelease): ReadEntries<BudgetRelease['releases'][number]> {
  return read(releases, (fields) => void checkCall(fields));
}

function read<T>(entries: readonly T[], check: (fields: Record<string, unknown>) => void): ReadEntries<T> {
  const result: ReadEntries<T> = { valid: [], invalid: [] };
  for (const entry of entries) {
    try {
      check(readObject(entry, 'entry'));
      result.valid.push(entry);
    } catch (error) {
      if (!(error instanceof InvalidField)) throw error;
      const callId = isJsonObject(entry) && typeof entry['call_id'] === 'string' ? entry['call_id'] : '';
      result.invalid.push({ entry, callId, field: error.field });
    }
  }
  return result;
}

function checkCall(fields: Record<string, unknown>): { callId: string; tenantId: string } {
  return { callId: id(fields['call_id'], 'call_id'), tenantId: scopes(fields['scopes'], 'scopes') };
}

function scopes(value: unknown, place: string): BudgetScopes['tenant_id'] {
  const fields = readObject(value, place);
  id(fields['request_id'], `${place}.request_id`);
  optionalIds(fields, ['agent_id', 'task_id'], `${place}.`);
  return tenant(fields['tenant_id'], `${place}.tenant_id`);
}

function readObject(value: unknown, place: string): Record<string, unknown> {
  if (!isJsonObject(value)) invalid(place, 'an object');
  return value;
}

function tenant(value: unknown, place: string): string {
  if (typeof value !== 'string' || !TENANT.test(value)) invalid(place, 'a tenant id');
  return value;
}

const ID = `a string of 1 to ${MAX_ID_LENGTH} characters without control characters`;

function id(value: unknown, place: string): string {
  if (!isPlainId(value)) invalid(place, ID);
  return value;
}

/** Only shared leases have ids that start with their prefix: the scripts tell them from leases of calls by it. */
function checkPrefix(value: unknown, isShared: boolean, place: string): void {
  if (String(value).startsWith(SHARED_LEASE_PREFIX) === isShared) return;
  invalid(place, `an id that ${isShared ? 'starts' : 'does not start'} with ${SHARED_LEASE_PREFIX}`);
}

function optionalIds(fields: Record<string, unknown>, names: readonly string[], within = ''): void {
  for (const name of names) if (fields[name] !== undefined && !isPlainId(fields[name])) invalid(within + name, ID);
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
