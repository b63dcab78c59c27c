import { type ApprovalRule, OPERATOR_TENANT, type Principal, ToolError } from '@toolfleet/contracts';
import { ADMIN_ROLE, FLEET_RIGHTS, OPERATOR_ROLE, RIGHT_NAMES, ROLES, type Right } from '@toolfleet/contracts/roles';

/** Roles of the configuration file: rights by name. */
export type OwnRoles = Readonly<Record<string, readonly Right[]>>;

/** In place of a tenant: all of them. */
export const EVERY_TENANT = '*';

/**
 * Whether a principal has a right in a tenant (default: its own), or in `EVERY_TENANT`. A delegated call has no rights.
 */
export function hasRight(principal: Principal, right: Right, tenantId = principal.tenantId): boolean {
  return holds(principal, right) && (tenantId === principal.tenantId || holds(principal, 'all_tenants'));
}

function holds({ via, roles, rights }: Principal, right: Right): boolean {
  if (via === 'delegation') return false;
  return rights?.includes(right) === true || roles.some((role) => builtIn(role)?.includes(right));
}

const builtIn = (role: string): readonly Right[] | undefined => (Object.hasOwn(ROLES, role) ? ROLES[role] : undefined);

/** All rights of a principal in its own tenant, in the order of the table. */
export const rightsOf = (principal: Principal): Right[] => RIGHT_NAMES.filter((right) => hasRight(principal, right));

/** Whether the principal has a built-in role with all rights of this one. */
export const coversRole = (principal: Principal, role: string): boolean =>
  builtIn(role)?.every((right) => hasRight(principal, right)) ?? false;

/**
 * @param what the refused action, named in the message
 * @throws ToolError PERMISSION_DENIED that names the right and the weakest built-in role with it
 */
export function requireRight(principal: Principal, right: Right, what = 'This', tenantId = principal.tenantId): void {
  if (hasRight(principal, right, tenantId)) return;
  const needed = tenantId === principal.tenantId ? right : 'all_tenants';
  const role = Object.keys(ROLES).find((name) => ROLES[name]!.includes(needed));
  throw new ToolError('PERMISSION_DENIED', {
    message: `${what} needs the right ${needed}, for example by the role ${role}.`,
    details: { role: role!, right: needed },
  });
}

/** Whether a rule of the policy lets callers like this one decide on calls of a tenant, without a look at who made the call. */
export function mayDecide(caller: Principal, { roles }: ApprovalRule, tenantId: string): boolean {
  if (!roles) return hasRight(caller, 'decide_calls', tenantId);
  const isOfTenant = caller.tenantId === tenantId || hasRight(caller, 'all_tenants');
  return (
    isOfTenant &&
    caller.via !== 'delegation' &&
    roles.every((names) => names.some((name) => caller.roles.includes(name)))
  );
}

/**
 * Refuses the token of a call where its user acts in person: a tool that calls tools changes no account or sign-in of the user.
 * @throws ToolError PERMISSION_DENIED
 */
export function refuseDelegated({ via }: Principal): void {
  if (via === 'delegation')
    throw new ToolError('PERMISSION_DENIED', { message: 'The token of a call makes calls only; use a key or sign in' });
}

/**
 * The roles that a credential of a tenant carries. `operator` counts only in the operators' tenant: neither an issuer of JWTs
 * nor a key with a role of that name can grant power over the fleet.
 */
export function effectiveRoles(tenantId: string, named: readonly string[]): string[] {
  return named.filter((role) => role !== OPERATOR_ROLE || tenantId === OPERATOR_TENANT);
}

/** The principal with the rights of its roles of the configuration file; rights over the fleet count in the operators' tenant only. */
export function withOwnRights(principal: Principal, own: OwnRoles): Principal {
  const granted = principal.roles.flatMap((role) => (Object.hasOwn(own, role) ? own[role]! : []));
  const rights = granted.filter((right) => principal.tenantId === OPERATOR_TENANT || !FLEET_RIGHTS.includes(right));
  return rights.length === 0 ? principal : { ...principal, rights: [...new Set(rights)] };
}

/** Key id of `GATEWAY_ADMIN_KEY`, outside the key store. */
export const OPERATOR_KEY_ID = 'operator';

/** The holder of `GATEWAY_ADMIN_KEY`, who creates the first keys and belongs to no customer's tenant. */
export const OPERATOR: Principal = {
  tenantId: OPERATOR_TENANT,
  userId: 'operator',
  roles: [ADMIN_ROLE, OPERATOR_ROLE],
  tools: ['*'],
  via: 'api_key',
  keyId: OPERATOR_KEY_ID,
  root: { tenantId: OPERATOR_TENANT, userId: 'operator', kind: 'operator' },
};
