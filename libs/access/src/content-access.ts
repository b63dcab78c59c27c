import { ToolError, type Principal } from '@toolfleet/contracts';
import type { StoredCall } from '@toolfleet/contracts/records';
import type { BodyAccess, ResultOmitted } from '@toolfleet/contracts/resources';
import { ownsCall, type MadeCall } from '@toolfleet/engine/access';
import { hasRight, requireRight } from './roles.js';

/** Whether a caller reads the content of a call: its own, that of another with each reading recorded, or not at all. */
export type ContentAccess = 'own' | 'recorded' | 'denied';

/**
 * Decides who reads the content of a call: its arguments, result, progress, files and the questions of its tool. Every route, MCP method and
 * message that carries content asks it about calls that the caller sees (`CallAccess`); without access the caller gets the state. A tool
 * that calls tools reads what its caller made, and has no rights.
 */
export function contentAccess(caller: Principal, call: MadeCall): ContentAccess {
  if (ownsCall(caller, call)) return 'own';
  return hasRight(caller, 'read_bodies', call.tenantId) ? 'recorded' : 'denied';
}

/**
 * Whether a caller reads the arguments and result that are kept of a finished call. The token of a call reads results by their handles
 * only.
 */
export function bodyAccess(caller: Principal, { tenant_id, key_id, user_id, body_bytes }: StoredCall): BodyAccess {
  if (body_bytes === undefined) return 'not_kept';
  if (caller.via === 'delegation') return 'denied';
  const maker = key_id === undefined ? undefined : `key:${key_id}`;
  return contentAccess(caller, { tenantId: tenant_id, maker, userId: user_id });
}

const FOR_WHOM =
  'Arguments and results are for the key or user that made the call, and for the right read_bodies, for example by the role auditor.';

/** The refusal of the content of a call. */
export const contentRefusal = (): ToolError =>
  new ToolError('PERMISSION_DENIED', { message: FOR_WHOM, details: { role: 'auditor', right: 'read_bodies' } });

/** Says in place of the content of a call why it is not there: for whom it is, or that reading it would be recorded. */
export const resultOmitted = (access: Exclude<ContentAccess, 'own'>): ResultOmitted =>
  access === 'denied'
    ? { reason: 'permission', message: FOR_WHOM }
    : {
        reason: 'recorded',
        message: 'Another key or user made the call. You may read its result; the reading is recorded.',
      };

/** @throws ToolError PERMISSION_DENIED unless the call is the caller's own, or it has the right to all calls */
export function requireCancel(caller: Principal, call: MadeCall): void {
  if (!ownsCall(caller, call))
    requireRight(caller, 'all_calls', 'Cancelling the call of another key or user', call.tenantId);
}
