/**
 * Roles are data: each is a name and a set of rights. Built-in roles are in `ROLES`; a fleet declares others in the section `roles` of
 * its configuration file. Code asks for rights, never for roles (`hasRight` of `@toolfleet/access`).
 */

/** Rights of roles, for the credential's own tenant. */
export const RIGHTS = {
  all_calls: 'see and cancel every call of the tenant, with sums and budgets',
  read_bodies: 'read the arguments and results of the calls that it sees; each reading is recorded',
  approve_tools: 'approve and reject changed tools',
  decide_calls: 'see calls that wait for a person with their arguments, approve and reject them; each look is logged',
  manage_sources: 'register, refresh and remove sources of tools; see hidden tools',
  manage_toolsets: 'change toolsets',
  manage_keys: 'create, list and revoke the API keys of the tenant, also of service accounts',
  mint_for_users: 'create API keys that name another user; they never reach what is personal to that user',
  manage_budgets: 'set and remove budgets of users and keys',
  manage_webhooks: 'change the endpoints that events of the tenant are posted to, and see deliveries',
  purge_users: 'delete the data of a user',
  all_tenants: 'the other rights hold in every tenant',
  operate_fleet:
    'see and change what tenants share: queues, faults, shared tools; set the budget of a tenant, purge it; grant any role and tier',
} as const;
export type Right = keyof typeof RIGHTS;
export const RIGHT_NAMES = Object.keys(RIGHTS) as Right[];
export const isRight = (name: string): name is Right => Object.hasOwn(RIGHTS, name);

/** Rights over other tenants. Only credentials of the tenant `operator` can have them. */
export const FLEET_RIGHTS: readonly Right[] = ['all_tenants', 'operate_fleet'];

const ADMIN = [
  'all_calls',
  'approve_tools',
  'decide_calls',
  'manage_sources',
  'manage_toolsets',
  'manage_keys',
  'manage_budgets',
  'manage_webhooks',
  'purge_users',
] as const satisfies Right[];

/**
 * The built-in roles, the weakest first. A name that is in neither table grants no right; tools (`required_roles`) and policies may
 * ask for it.
 */
export const ROLES: Readonly<Record<string, readonly Right[]>> = {
  member: [],
  approver: ['approve_tools', 'decide_calls'],
  auditor: ['all_calls', 'read_bodies'],
  admin: ADMIN,
  operator: [...ADMIN, 'mint_for_users', ...FLEET_RIGHTS],
};

/** Administers one tenant: its keys, tool sources and approvals. Of calls it reads the arguments of those that wait for a decision only. */
export const ADMIN_ROLE = 'admin';
/** Operates the fleet: acts across tenants, shares tools with all of them, may use the fleet's `${VAR}` in definitions. */
export const OPERATOR_ROLE = 'operator';
/** Reads the arguments and results of its tenant's calls. */
export const AUDITOR_ROLE = 'auditor';
