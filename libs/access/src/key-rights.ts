import {
  invalidRequest,
  isReservedUser,
  OPERATOR_ROLE,
  personOf,
  PRESENTED_TOKEN,
  serviceUserId,
  ToolError,
  type Person,
  type Principal,
} from '@toolfleet/contracts';
import { narrowGlobs, toolAllowed } from '@toolfleet/engine/access';
import type { KeySpec, KeyView } from './api-keys.js';
import { coversRole, hasRight } from './roles.js';

/** Abilities of a key; the rest of a `KeySpec` names its owner. */
type RightsOfKey = Pick<KeySpec, 'roles' | 'tools' | 'projects' | 'toolset' | 'tier' | 'mcpMode'>;

/** A request for a new key. Rights that it does not name are its maker's. */
export interface KeyRequest extends RightsOfKey {
  client: string;
  tenantId?: string | undefined;
  /** Default: the maker; for operators the client. */
  userId?: string | undefined;
  /** In place of a user: the name of a service account. */
  serviceAccount?: string | undefined;
  expiresAt?: KeySpec['expiresAt'];
}

/** A right of a key by the wish of its maker, who cannot grant more than it holds. @throws ToolError PERMISSION_DENIED */
type RightRule<F extends keyof KeySpec> = (maker: Principal, wanted: KeySpec[F]) => KeySpec[F];

/**
 * Rules for passing on each field of a key. Only operators grant more than they hold: roles and tiers, and projects unless
 * their own are limited.
 */
const RULES: { readonly [F in keyof RightsOfKey | 'expiresAt']-?: RightRule<F> } = {
  roles(maker, wanted = []) {
    if (hasRight(maker, 'operate_fleet')) return wanted;
    // A name that tools or policies ask for is held, or not; of a built-in role the rights count.
    const lacking = wanted.filter((role) => !maker.roles.includes(role) && !coversRole(maker, role));
    if (lacking.includes(OPERATOR_ROLE)) deny('roles', 'Only operators can create operators.');
    if (lacking.length > 0) deny('roles', `Your key lacks the roles ${lacking.join(', ')}.`);
    return wanted;
  },
  tools(maker, wanted = [...maker.tools]) {
    const covered = new Set(narrowGlobs(maker.tools, wanted));
    const beyond = wanted.filter((glob) => !covered.has(glob));
    if (beyond.length > 0) deny('tools', `Your key may not call ${beyond.join(', ')}.`);
    return wanted;
  },
  projects(maker, wanted) {
    // A key without projects may name none as a public caller, and any over NATS.
    const { projects: held = hasRight(maker, 'operate_fleet') ? ['*'] : undefined } = maker;
    if (held?.includes('*')) return wanted;
    const foreign = wanted?.filter((project) => !toolAllowed(held ?? [], project)) ?? [];
    if (foreign.length > 0) deny('projects', `Your key may not use ${foreign.join(', ')}.`);
    return wanted ?? held?.slice();
  },
  toolset({ toolset }, wanted) {
    if (!toolset?.bound) return wanted;
    const own = toolset.bound === 'to_version' ? `${toolset.name}@${toolset.version}` : toolset.name;
    if (wanted !== undefined && wanted !== own) deny('toolset', `Your key is bound to toolset ${own}.`);
    return own;
  },
  tier(maker, wanted) {
    if (hasRight(maker, 'operate_fleet')) return wanted;
    if (wanted !== undefined && wanted !== maker.tier)
      deny('tier', 'A tier other than your own needs the role operator.');
    return maker.tier;
  },
  // Hides tools from MCP clients; which ones can be called is decided by `tools` and `toolset`.
  mcpMode: (_maker, wanted) => wanted,
  expiresAt({ via, expiresAt: end }, wanted) {
    // A session ends with the working day; its user, and the right to make keys, do not.
    const expiresAt = via === 'session' ? undefined : end;
    if (wanted === undefined) return expiresAt;
    if (expiresAt !== undefined && wanted > expiresAt)
      deny(
        'expires_in_seconds',
        `Your key ends at ${new Date(expiresAt).toISOString()}; it cannot create longer ones.`,
      );
    return wanted;
  },
};

/** @throws ToolError PERMISSION_DENIED */
function tenantOf(maker: Principal, wanted = maker.tenantId): string {
  if (wanted !== maker.tenantId && !hasRight(maker, 'manage_keys', wanted))
    deny('tenant_id', 'Creating keys of another tenant needs the role operator.');
  return wanted;
}

/**
 * The user that a key acts for: its maker, unless the maker may name another one. Operators vouch for the users that they name.
 * @throws ToolError PERMISSION_DENIED; REQUEST_INVALID
 */
function userOf(maker: Principal, tenantId: string, { userId, serviceAccount, client }: KeyRequest): string {
  if (serviceAccount !== undefined) {
    if (userId !== undefined) invalid('service_account', 'Name either user_id or service_account.');
    if (!hasRight(maker, 'manage_keys', tenantId))
      deny('service_account', 'Keys of service accounts need the right manage_keys, for example by the role admin.');
    return serviceUserId(serviceAccount);
  }
  if (userId !== undefined && isReservedUser(userId))
    invalid('user_id', `'${userId}' is not a person; name a service account in service_account, without "service:".`);
  if (hasRight(maker, 'operate_fleet')) return userId ?? client;
  const isOwn = tenantId === maker.tenantId && (userId ?? maker.userId) === maker.userId;
  if (isOwn) return maker.userId;
  if (userId !== undefined && hasRight(maker, 'mint_for_users', tenantId)) return userId;
  return deny(
    'user_id',
    `A key for another user needs the right mint_for_users. ${userId === undefined ? 'Each user' : userId} signs in and creates it, or an operator does; for a service, name a service_account.`,
  );
}

/** The person that a key counts as: its maker, whatever user it names. Undefined: its user, for whom an operator vouches. */
function rootOf(maker: Principal): Person | undefined {
  if (hasRight(maker, 'operate_fleet')) return undefined;
  const person = personOf(maker) ?? deny('user_id', 'Only a person can create keys.');
  return { ...person, kind: 'creator' };
}

/**
 * By which field of a key each right of a principal is passed on; null for rights that no key carries. A new field of `Principal` needs an
 * entry here, and a new field of `KeySpec` a rule above: without them this file does not compile.
 */
export const PASSED_ON: { readonly [P in keyof Required<Principal>]: keyof KeySpec | null } = {
  tenantId: 'tenantId',
  [PRESENTED_TOKEN]: null,
  userId: 'userId',
  roles: 'roles',
  rights: 'roles',
  tools: 'tools',
  projects: 'projects',
  toolset: 'toolset',
  tier: 'tier',
  mcpMode: 'mcpMode',
  expiresAt: 'expiresAt',
  keyId: 'parentId',
  root: 'root',
  // A key of a signed-in user lives on; it is a row of its own that people see and revoke.
  sessionId: null,
  via: null,
  // A key is a credential itself.
  authenticated: null,
  // Of delegated callers, who create no keys.
  parentCallId: null,
  parentOrigin: null,
  parentProject: null,
  parentSpends: null,
};

/** Each right of a key by its rule. @throws ToolError PERMISSION_DENIED naming the field */
function rightsFor(maker: Principal, wanted: RightsOfKey & Pick<KeySpec, 'expiresAt'>) {
  return {
    roles: RULES.roles(maker, wanted.roles),
    tools: RULES.tools(maker, wanted.tools),
    projects: RULES.projects(maker, wanted.projects),
    toolset: RULES.toolset(maker, wanted.toolset),
    tier: RULES.tier(maker, wanted.tier),
    mcpMode: RULES.mcpMode(maker, wanted.mcpMode),
    expiresAt: RULES.expiresAt(maker, wanted.expiresAt),
  } satisfies Record<keyof typeof RULES, unknown>;
}

/**
 * Completes the request for a key by the rights of its maker.
 * @throws ToolError PERMISSION_DENIED naming the field, if the request exceeds them; REQUEST_INVALID for a user that is not a person
 */
export function toKeySpec(maker: Principal, request: KeyRequest): KeySpec {
  const tenantId = tenantOf(maker, request.tenantId);
  const { client } = request;
  const of = { tenantId, client, userId: userOf(maker, tenantId, request), parentId: maker.keyId, root: rootOf(maker) };
  return { ...of, ...rightsFor(maker, request) };
}

/**
 * The rights that a caller grants to an existing key, all of which the caller must hold. A key keeps its user, its tier unless the request
 * names one, and its end, so a caller cannot pass rights on to a key that outlives its own.
 * @throws ToolError PERMISSION_DENIED naming the field
 */
export function toChangedKeySpec(
  maker: Principal,
  {
    tenantId,
    client,
    userId,
    expiresAt,
    tier: oldTier,
  }: Pick<KeyView, 'tenantId' | 'client' | 'userId' | 'expiresAt' | 'tier'>,
  rights: RightsOfKey,
): KeySpec {
  const granted = rightsFor(maker, { ...rights, expiresAt });
  if (granted.expiresAt !== expiresAt)
    deny('id', `Your key ends before ${client}; only a key that lives as long can change its rights.`);
  return { tenantId, client, userId, ...granted, tier: rights.tier === undefined ? oldTier : granted.tier };
}

/**
 * The keys that a caller lists, changes and revokes without the right to its tenant's: signed in, all that act for its user; with a
 * key, this key and those made with it, so that the key of an agent does not end the others of its user.
 */
export function ownKeys(caller: Principal, keys: readonly KeyView[]): KeyView[] {
  const ofUser = keys.filter(({ tenantId, userId }) => tenantId === caller.tenantId && userId === caller.userId);
  const { keyId } = caller;
  if (keyId === undefined) return ofUser;
  const family = new Set([keyId]);
  // Parents come first: a key is younger than the one that made it.
  for (const { id, parentId } of ofUser) if (parentId !== undefined && family.has(parentId)) family.add(id);
  return ofUser.filter(({ id }) => family.has(id));
}

function deny(field: string, message: string): never {
  throw new ToolError('PERMISSION_DENIED', { message, details: { fields: [field] } });
}

function invalid(field: string, message: string): never {
  throw invalidRequest(message, field);
}
