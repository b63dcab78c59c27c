import { OPERATOR_ROLE, personOf, PRESENTED_TOKEN, ToolError, type Principal } from '@toolfleet/contracts';
import { narrowGlobs, toolAllowed } from '@toolfleet/engine/access';
import type { KeySpec } from './api-keys.js';
import { coversRole, hasRight } from './roles.js';

/** A request for a new key. Rights that it does not name are those of its maker. */
export type KeyRequest = Omit<KeySpec, 'tenantId' | 'parentId' | 'root'> & { tenantId?: string | undefined };

/** A field of a key by the wish of its maker, who cannot grant more than it holds. @throws ToolError PERMISSION_DENIED */
type Rule<F extends keyof KeySpec> = (maker: Principal, wanted: KeySpec[F] | undefined) => KeySpec[F];

/** For fields that grant nothing. */
const asWanted = <T>(_maker: Principal, wanted: T): T => wanted;

/**
 * What a key can pass on, field by field. Only operators grant what they do not hold themselves: tenants, roles and tiers, and
 * projects unless their own are limited.
 */
const RULES: { readonly [F in keyof Required<KeySpec>]: Rule<F> } = {
  tenantId(maker, wanted = maker.tenantId) {
    if (!hasRight(maker, 'manage_keys', wanted))
      deny('tenant_id', 'Creating keys of another tenant needs the role operator.');
    return wanted;
  },
  client: (_maker, wanted = '') => wanted,
  // An administrator acts for the users of its tenant: it sees and cancels their calls, and purges their data.
  userId: asWanted,
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
  mcpMode: asWanted,
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
  parentId: ({ keyId }) => keyId,
  // A key counts as its maker, whatever user it names. Operators vouch for the users that they name.
  root(maker) {
    if (hasRight(maker, 'operate_fleet')) return undefined;
    const person = personOf(maker) ?? deny('user_id', 'Only a person can create keys.');
    return { ...person, kind: 'creator' };
  },
};

/**
 * By which field of a key each right of a principal is passed on; null for what no key carries. A new field of `Principal` needs an
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

/**
 * Completes the request for a key by the rights of its maker.
 * @throws ToolError PERMISSION_DENIED naming the field, if the request exceeds them
 */
export function toKeySpec(maker: Principal, request: KeyRequest): KeySpec {
  const decide = <F extends keyof KeySpec>(field: F) =>
    RULES[field](maker, (request as Partial<KeySpec>)[field]) as KeySpec[F];
  const fields = Object.keys(RULES) as (keyof KeySpec)[];
  return Object.fromEntries(fields.map((field) => [field, decide(field)])) as unknown as KeySpec;
}

/**
 * The rights that a caller grants to an existing key, all of which the caller must hold. A key keeps its tier unless the request names one,
 * and its end, so a caller cannot pass rights on to a key that outlives its own.
 * @throws ToolError PERMISSION_DENIED naming the field
 */
export function toChangedKeySpec(
  maker: Principal,
  key: Omit<KeySpec, 'parentId' | 'root'>,
  { tier, ...rights }: Pick<KeySpec, 'roles' | 'tools' | 'projects' | 'toolset' | 'tier' | 'mcpMode'>,
): KeySpec {
  const { tenantId, client, userId, expiresAt } = key;
  const spec = toKeySpec(maker, { tenantId, client, userId, expiresAt, ...rights, tier });
  if (spec.expiresAt !== expiresAt)
    deny('id', `Your key ends before ${client}; only a key that lives as long can change its rights.`);
  return { ...spec, tier: tier === undefined ? key.tier : spec.tier };
}

function deny(field: string, message: string): never {
  throw new ToolError('PERMISSION_DENIED', { message, details: { fields: [field] } });
}
