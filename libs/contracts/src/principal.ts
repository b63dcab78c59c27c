import type { EpochMs } from './units.js';

/** Who calls: the outcome of authentication. The tenant comes from the credential, never from a body or header. */
export interface Principal {
  tenantId: string;
  userId: string;
  roles: readonly string[];
  /** Globs (`*` matches any run of characters) of tool names this caller may use. */
  tools: readonly string[];
  /** How the caller proved itself. */
  via: 'api_key' | 'jwt' | 'nats_subject' | 'delegation' | 'local';
  /** Clear id of the API key, when `via` is `api_key`. */
  keyId?: string;
  /** Instant from which the credential must not be used any more; absent when it does not expire. */
  expiresAt?: EpochMs;
  /** Name of the rate class (`rate_limits.tiers`); `free` when unset. */
  tier?: string;
  /** Set for calls made by a tool on behalf of a caller: the call that spawned this one. */
  parentCallId?: string;
  /** Origin of that call when it was internal: what a tool does on behalf of a public caller stays public. */
  parentOrigin?: Origin;
  /** Budgets that call spends from; so does everything done on its behalf, whatever it names itself. */
  parentSpends?: SpendingScopes;
}

/** For whom a call spends, beside its tenant. */
export interface SpendingScopes {
  requestId: string;
  agentId?: string;
  taskId?: string;
}

/** `public` callers never reach dangerous tools; `internal` ones may when policy allows. */
export type Origin = 'public' | 'internal';

/** Administers one tenant: its keys, its sources of tools, approvals of its tools. */
export const ADMIN_ROLE = 'admin';
/** Operates the fleet: acts across tenants, shares tools with all of them, uses the fleet's `${VAR}` in definitions. */
export const OPERATOR_ROLE = 'operator';
/** Tenant of the fleet's operators; only credentials of this tenant can carry `OPERATOR_ROLE`. */
export const OPERATOR_TENANT = 'operator';
/** Tenant of everyone on a developer's machine (local mode). */
export const LOCAL_TENANT = 'local';

/** True for tenants that belong to the fleet itself: no token, key or subject of a customer may claim one. */
export function isReservedTenant(tenantId: string): boolean {
  return tenantId === OPERATOR_TENANT || tenantId === LOCAL_TENANT;
}
