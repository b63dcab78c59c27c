import { ADMIN_ROLE, OPERATOR_ROLE, OPERATOR_TENANT, type Principal, ToolError } from '@toolfleet/contracts';

/**
 * The meaning of the roles `admin` (acts in its own tenant) and `operator` (acts across tenants and may do all that an
 * administrator may). A delegated call has neither power.
 */

/** True for principals that operate the fleet. */
export function isOperator(principal: Principal): boolean {
  return principal.via !== 'delegation' && principal.roles.includes(OPERATOR_ROLE);
}

/** True for principals that administer their own tenant, and for operators. */
export function isAdmin(principal: Principal): boolean {
  return principal.via !== 'delegation' && (principal.roles.includes(ADMIN_ROLE) || isOperator(principal));
}

/** True when the principal administers this tenant: an administrator its own, an operator any. */
export function administers(principal: Principal, tenantId: string): boolean {
  return isOperator(principal) || (isAdmin(principal) && principal.tenantId === tenantId);
}

/**
 * The roles that a credential of a tenant carries. `operator` counts only in the operators' tenant: neither an issuer of JWTs
 * nor a key with a role of that name can grant power over the fleet.
 */
export function effectiveRoles(tenantId: string, named: readonly string[]): string[] {
  return named.filter((role) => role !== OPERATOR_ROLE || tenantId === OPERATOR_TENANT);
}

/** @throws ToolError PERMISSION_DENIED unless the principal is an administrator or an operator */
export function requireAdmin(principal: Principal): void {
  if (!isAdmin(principal)) throw needsRole(ADMIN_ROLE);
}

/** @param what the refused action, named in the message @throws ToolError PERMISSION_DENIED unless the principal is an operator */
export function requireOperator(principal: Principal, what = 'This'): void {
  if (!isOperator(principal)) throw needsRole(OPERATOR_ROLE, what);
}

function needsRole(role: string, what = 'This'): ToolError {
  return new ToolError('PERMISSION_DENIED', { message: `${what} needs the role ${role}.`, details: { role } });
}

/** Key id of `GATEWAY_ADMIN_KEY`, which is not in the key store. */
export const OPERATOR_KEY_ID = 'operator';

/** The holder of `GATEWAY_ADMIN_KEY`, who creates the first keys and belongs to no customer's tenant. */
export const OPERATOR: Principal = {
  tenantId: OPERATOR_TENANT,
  userId: 'operator',
  roles: [ADMIN_ROLE, OPERATOR_ROLE],
  tools: ['*'],
  via: 'api_key',
  keyId: OPERATOR_KEY_ID,
};
