import type { Right } from './roles.js';
import type { ToolsetRef } from './toolset.js';
import type { EpochMs } from './units.js';

/**
 * The token that a caller presented, for tools that exchange it. A symbol: nothing that is written as JSON (logs, queues, records, other
 * tokens) has it.
 */
export const PRESENTED_TOKEN = Symbol('presented token');

/** Who is behind a credential. Tenant and user identify a person, whatever the kind. */
export interface Person {
  tenantId: string;
  userId: string;
  /**
   * How the credential leads to the person. `sign_in`: a sign-in, or a token of the tenant's issuer; `operator`: an operator made the key
   * for its user, or is the person; `creator`: the person made the key, signed in or with another key.
   */
  kind: 'sign_in' | 'operator' | 'creator';
}

/** The authenticated caller. Its tenant always comes from the credential, never from the request. */
export interface Principal {
  tenantId: string;
  userId: string;
  roles: readonly string[];
  /** Rights that its roles of the configuration file grant. Built-in roles grant theirs by name. */
  rights?: readonly Right[];
  /** Globs of the tool names that the caller may use; `*` matches any characters. */
  tools: readonly string[];
  /**
   * Projects that the credential may use: ids, and globs with `*`. Calls that name no project work on the first id. Absent: none for
   * public callers, all of the tenant for internal ones; the tenant's default project in both cases.
   */
  projects?: readonly string[];
  /** The toolset through which the caller sees and calls tools; absent: all that `tools` allows, under their own names. */
  toolset?: ToolsetRef;
  /** How the caller authenticated. `session`: a browser after a sign-in; `oauth`: a client that a user connected to `/mcp`. */
  via: 'api_key' | 'jwt' | 'nats_subject' | 'delegation' | 'local' | 'session' | 'oauth';
  /**
   * Whether a credential was presented, where `via` does not tell: `local` is the development key or no credential, and a delegated call has
   * the answer of its parent. Read by `isAuthenticated`.
   */
  authenticated?: boolean;
  /** Public id of the API key when `via` is `api_key`. */
  keyId?: string;
  /** The person at the beginning of the chain of credentials that led to this one; absent where its own user signed in. See `personOf`. */
  root?: Person;
  /** Sign-in session of a user: `via` is `session` or `oauth`, or work runs on behalf of such a caller. */
  sessionId?: string;
  /** When the credential expires; absent when it does not. */
  expiresAt?: EpochMs;
  /** When `via` is `jwt`, in the process that verified it. */
  [PRESENTED_TOKEN]?: string;
  /** The tools that MCP requests of the credential see, whatever their URL asks for. */
  mcpMode?: McpMode;
  /** Name of the rate class (`rate_limits.tiers`); `free` when unset. */
  tier?: string;
  /** For a call that a tool makes on behalf of a caller: the call in which the tool runs. */
  parentCallId?: string;
  /** Origin of that call. A tool that runs for a public caller makes public calls. */
  parentOrigin?: Origin;
  /** Project of that call; calls on its behalf work on no other. */
  parentProject?: { id: string; create: boolean };
  /** Budgets of that call. Everything done on its behalf spends from them, whatever ids the nested call sends. */
  parentSpends?: SpendingScopes;
}

/**
 * The tools that an MCP client sees: all of them, two tools to find and call them, or three to find and describe them and to
 * run programs that call them.
 */
export const MCP_MODES = ['list', 'search', 'code'] as const;
export type McpMode = (typeof MCP_MODES)[number];

/** Budgets that a call spends from, in addition to its tenant's. */
export interface SpendingScopes {
  requestId: string;
  agentId?: string;
  taskId?: string;
}

/** The maker of a call, as it is stored with the call: its API key, else its user. */
export function toMaker({ keyId, userId }: Pick<Principal, 'keyId' | 'userId'>): string {
  return keyId === undefined ? `user:${userId}` : `key:${keyId}`;
}

/** `public` callers can never call dangerous tools; `internal` ones can if the policy allows it. */
export type Origin = 'public' | 'internal';

/** Tenant of the operators. Only its credentials can have `OPERATOR_ROLE` and `FLEET_RIGHTS`. */
export const OPERATOR_TENANT = 'operator';
/** The tenant of local mode. */
export const LOCAL_TENANT = 'local';

/** The user of messages that are sent on a tenant's own subjects without a key: all NATS users of the tenant are this one. */
export const natsUserId = (tenantId: string): string => (tenantId === LOCAL_TENANT ? 'nats' : `nats:${tenantId}`);

/** Ids of tenants: one token of a NATS subject and a part of Redis keys and paths, so without wildcards and separators. */
export const TENANT_ID_PATTERN = /^[A-Za-z0-9_-]{1,64}$/;

/** True for tenants of the fleet itself, reserved from tokens, keys and subjects of customers. */
export function isReservedTenant(tenantId: string): boolean {
  return tenantId === OPERATOR_TENANT || tenantId === LOCAL_TENANT;
}

/** Users that are services. No sign-in, token or key of a person can have such an id. */
const SERVICE_PREFIX = 'service:';

/** The user of the service account of this name. */
export const serviceUserId = (name: string): string => `${SERVICE_PREFIX}${name}`;

export const isServiceAccount = (userId: string): boolean => userId.startsWith(SERVICE_PREFIX);

/** True for services: service accounts, and the users of NATS subjects. No issuer or provider may claim their ids. */
export const isReservedUser = (userId: string): boolean => isServiceAccount(userId) || userId.startsWith('nats:');

/**
 * The person that a credential counts as where people decide. Undefined for services that call over NATS without a credential, also in the
 * tools that they call.
 */
export function personOf({ via, keyId, root, tenantId, userId }: Principal): Person | undefined {
  const isService = via === 'nats_subject' || via === 'local' || userId === natsUserId(tenantId);
  if (root || keyId !== undefined || isService) return root;
  return { tenantId, userId, kind: 'sign_in' };
}

/**
 * Whether a credential acts for its user in personal matters: accounts at sources, and approvals given in advance. True for a sign-in, for
 * keys that the user or an operator made, and for service accounts. A key that anyone else made names the user only.
 */
export function actsInPerson(caller: Principal): boolean {
  if (isServiceAccount(caller.userId)) return true;
  const person = personOf(caller);
  // Without a key: a message on the subjects of a tenant; no credential can claim its user.
  if (!person) return caller.keyId === undefined;
  return person.tenantId === caller.tenantId && person.userId === caller.userId;
}
