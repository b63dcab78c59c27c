import { Controller, Res } from '@nestjs/common';
import {
  ADMIN_ROLE,
  instantOrNull,
  isServiceAccount,
  isToolError,
  OPERATOR_ROLE,
  toInstant,
  ToolError,
  type EpochMs,
  type Principal,
} from '@toolfleet/contracts';
import type { RouteInput } from '@toolfleet/contracts/resources';
import { suggestion } from '@toolfleet/contracts/text';
import { parseToolsetRef } from '@toolfleet/contracts/toolset';
import { ToolInventory, Toolsets } from '@toolfleet/catalog';
import { Clock } from '@toolfleet/resilience';
import { VERSION } from '@toolfleet/service';
import { NatsClient } from '@toolfleet/transport';
import type { FastifyReply } from 'fastify';
import {
  ApiKeys,
  coversRole,
  EVERY_TENANT,
  hasRight,
  isLive,
  type KeyView,
  MAX_OWN_KEYS,
  ownKeys,
  refuseDelegated,
  toChangedKeySpec,
  toKeySpec,
  RequestLimits,
  rightsOf,
  unauthenticated,
} from '@toolfleet/access';
import { FleetRoles } from './roles.controller.js';
import { Caller } from '../server/guards.js';
import { orUnavailable } from '@toolfleet/queue/redis';
import { Input, Serves } from '../server/routes.js';

const STORE = 'The store of keys';

/**
 * API keys: everyone makes, lists and revokes its own, an administrator its tenant's, an operator all tenants'. The token of a
 * key is shown once, when it is created.
 */
@Controller()
export class KeysController {
  constructor(
    private readonly keys: ApiKeys,
    private readonly limits: RequestLimits,
    private readonly inventory: ToolInventory,
    private readonly toolsets: Toolsets,
    private readonly nats: NatsClient,
    private readonly clock: Clock,
    private readonly roles: FleetRoles,
  ) {}

  @Serves('GET /api/v1/keys')
  async list(@Caller() caller: Principal) {
    return (await this.#managed(caller)).map(toKeyBody);
  }

  @Serves('POST /api/v1/keys')
  async create(@Caller() caller: Principal, @Input() { body }: RouteInput<'POST /api/v1/keys'>) {
    refuseDelegated(caller);
    requireTier(this.limits, body.tier);
    await this.requireSession(caller);
    const now = this.clock.now();
    const { tenant_id: tenantId, user_id: userId, service_account: serviceAccount, mcp_mode: mcpMode } = body;
    const { expires_in_seconds: seconds, note, ...rights } = body;
    const expiresAt = seconds === undefined ? undefined : now + seconds * 1_000;
    const spec = toKeySpec(caller, { ...rights, tenantId, userId, serviceAccount, mcpMode, expiresAt });
    if (!hasRight(caller, 'manage_keys')) await this.#requireRoom(caller, now);
    const { token, key } = await orUnavailable(STORE, this.keys.issue({ ...spec, note }, caller.userId));
    return { ...toKeyBody(key), token, warnings: await this.unknownNames(caller, key.tenantId, body) };
  }

  /** A key outlives the session that makes it, so a session that a gateway has cached does not do. @throws ToolError UNAUTHENTICATED */
  private async requireSession({ sessionId }: Principal): Promise<void> {
    if (sessionId === undefined) return;
    const { live } = await this.nats.ask('identity.session.live', { session_id: sessionId });
    if (!live) throw unauthenticated('signed_out');
  }

  @Serves('PUT /api/v1/keys/{id}')
  async change(@Caller() caller: Principal, @Input() { path, body }: RouteInput<'PUT /api/v1/keys/{id}'>) {
    requireTier(this.limits, body.tier);
    await this.#requireManaged(caller, path.id);
    const { mcp_mode: mcpMode, note, ...rights } = body;
    const changing = this.keys.change(path.id, tenantScope(caller), (key) => ({
      ...toChangedKeySpec(caller, key, { ...rights, mcpMode }),
      note,
    }));
    const key = await orUnavailable(STORE, changing);
    if (!key) throw noKey(path.id);
    return toKeyBody(key);
  }

  /** The keys that the caller lists, changes and revokes. @throws ToolError PERMISSION_DENIED for a call */
  async #managed(caller: Principal): Promise<KeyView[]> {
    refuseDelegated(caller);
    const keys = await orUnavailable(STORE, this.keys.list(tenantScope(caller)));
    return hasRight(caller, 'manage_keys') ? keys : ownKeys(caller, keys);
  }

  /** @throws ToolError NOT_FOUND, also for a key of another user */
  async #requireManaged(caller: Principal, id: string): Promise<void> {
    if (hasRight(caller, 'manage_keys')) return;
    if (!(await this.#managed(caller)).some((key) => key.id === id)) throw noKey(id);
  }

  /** Keys have limits of their own, so a user must not have any number. @throws ToolError REQUEST_INVALID */
  async #requireRoom({ tenantId, userId }: Principal, now: EpochMs): Promise<void> {
    const keys = await orUnavailable(STORE, this.keys.list(tenantId));
    if (keys.filter((key) => key.userId === userId && isLive(key, now)).length < MAX_OWN_KEYS) return;
    throw new ToolError('REQUEST_INVALID', {
      message: `You have ${MAX_OWN_KEYS} live keys already; revoke one first.`,
    });
  }

  /** Sources and toolsets may come after their keys, so unknown names are not refused. Without the registry none is known. */
  private async unknownNames(
    caller: Principal,
    tenantId: string,
    { tools = [], toolset, roles = [] }: RouteInput<'POST /api/v1/keys'>['body'],
  ): Promise<string[]> {
    const known = this.roles.shownTo(caller).map(({ name }) => name);
    // A policy may decide by other names.
    const strange = roles
      .filter((role) => !known.includes(role))
      .map((role) => `no role is called '${role}', only policies can give it rights${suggestion(role, known)}`);
    const ref = toolset === undefined ? undefined : parseToolsetRef(toolset);
    const [unmatched, missing] = await Promise.all([
      tools.length === 0 ? [] : this.inventory.unmatched(tenantId, tools).catch(() => []),
      ref &&
        this.toolsets.view(tenantId, ref).then(
          () => undefined,
          (error: unknown) => (isToolError(error) && error.code === 'NOT_FOUND' ? error.message : undefined),
        ),
    ]);
    return [...strange, ...unmatched, ...(missing === undefined ? [] : [missing])];
  }

  /** Answers 204; with `children`, the ids of the revoked keys. */
  @Serves('DELETE /api/v1/keys/{id}')
  async revoke(
    @Caller() caller: Principal,
    @Input() { path: { id }, query: { children: withChildren } }: RouteInput<'DELETE /api/v1/keys/{id}'>,
    @Res({ passthrough: true }) reply: FastifyReply,
  ) {
    await this.#requireManaged(caller, id);
    const scope = tenantScope(caller);
    const revoking: Promise<string[] | boolean | undefined> = withChildren
      ? this.keys.revokeWithChildren(id, scope)
      : this.keys.revoke(id, scope);
    const revoked = await orUnavailable(STORE, revoking);
    if (!revoked) throw noKey(id);
    if (Array.isArray(revoked)) return { revoked };
    void reply.status(204);
    return undefined;
  }
}

const noKey = (id: string): ToolError => new ToolError('NOT_FOUND', { message: `You manage no valid key '${id}'` });

/** The tenant of the keys that the caller sees; undefined for all tenants. */
const tenantScope = (caller: Principal): string | undefined =>
  hasRight(caller, 'manage_keys', EVERY_TENANT) ? undefined : caller.tenantId;

/** @throws ToolError REQUEST_INVALID: an unknown tier would silently get the limits of the smallest one */
export function requireTier({ tierNames }: RequestLimits, tier: string | undefined): void {
  if (tier === undefined || tierNames.includes(tier)) return;
  throw new ToolError('REQUEST_INVALID', {
    message: `tier must be one of ${tierNames.join(', ')}`,
    details: { fields: ['tier'] },
  });
}

export function toKeyBody(key: KeyView) {
  return {
    id: key.id,
    tenant_id: key.tenantId,
    client: key.client,
    user_id: key.userId,
    is_service_account: isServiceAccount(key.userId),
    roles: key.roles,
    tools: key.tools,
    projects: key.projects ?? [],
    toolset: key.toolset ?? null,
    tier: key.tier ?? null,
    mcp_mode: key.mcpMode ?? null,
    note: key.note ?? null,
    parent_id: key.parentId ?? null,
    person: { tenant_id: key.root.tenantId, user_id: key.root.userId, kind: key.root.kind },
    created_by: key.createdBy,
    created_at: toInstant(key.createdAt),
    expires_at: instantOrNull(key.expiresAt),
    revoked_at: instantOrNull(key.revokedAt),
    last_used_at: instantOrNull(key.lastUsedAt),
  };
}

/** The caller and its rights, so that a client can offer the possible actions. */
@Controller()
export class MeController {
  constructor(private readonly limits: RequestLimits) {}

  @Serves('GET /api/v1/me')
  me(@Caller() caller: Principal) {
    const tier = this.limits.tier(caller);
    return {
      tenant_id: caller.tenantId,
      user_id: caller.userId,
      roles: [...caller.roles],
      rights: rightsOf(caller),
      admin: coversRole(caller, ADMIN_ROLE),
      operator: coversRole(caller, OPERATOR_ROLE),
      via: caller.via,
      key_id: caller.keyId ?? null,
      expires_at: instantOrNull(caller.expiresAt),
      tools: [...caller.tools],
      toolset: caller.toolset?.name ?? null,
      tier: {
        name: caller.tier ?? null,
        requests_per_minute: tier.minute,
        requests_per_hour: tier.hour,
        requests_per_day: tier.day,
      },
      version: VERSION,
    };
  }
}
