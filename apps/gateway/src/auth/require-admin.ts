import { ADMIN_ROLE, type Principal, ToolError } from '@toolfleet/contracts';

/** True for principals that may register tools, manage keys and approve quarantined tools. A delegated call never may. */
export function isAdmin(principal: Principal): boolean {
  return principal.via !== 'delegation' && principal.roles.includes(ADMIN_ROLE);
}

/** @throws ToolError PERMISSION_DENIED unless the principal is an administrator */
export function requireAdmin(principal: Principal): void {
  if (!isAdmin(principal)) {
    throw new ToolError('PERMISSION_DENIED', { message: 'This needs the role admin.', details: { role: ADMIN_ROLE } });
  }
}
