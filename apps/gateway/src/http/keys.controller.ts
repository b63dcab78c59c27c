import { Controller, Res } from '@nestjs/common';
import { ADMIN_ROLE, isToolError, OPERATOR_ROLE, ToolError, type Principal } from '@toolfleet/contracts';
import type { RouteInput } from '@toolfleet/contracts/resources';
import { parseToolsetRef } from '@toolfleet/contracts/toolset';
import { ToolInventory, Toolsets } from '@toolfleet/catalog';
import { Clock } from '@toolfleet/resilience';
import { VERSION } from '@toolfleet/service';
import type { FastifyReply } from 'fastify';
import {
  ApiKeys,
  type KeyView,
  toChangedKeySpec,
  toKeySpec,
  coversRole,
  EVERY_TENANT,
  hasRight,
  RequestLimits,
  rightsOf,
} from '@toolfleet/access';
import { Caller } from '../server/guards.js';
import { orUnavailable } from '@toolfleet/queue/redis';
import { Input, Serves } from '../server/routes.js';
import { instantOrNull, toInstant } from './instants.js';

const STORE = 'The store of keys';

/** API keys of an administrator's tenant, for operators of all tenants. The token of a key is shown once, when it is created. */
@Controller()
export class KeysController {
  constructor(
    private readonly keys: ApiKeys,
    private readonly limits: RequestLimits,
    private readonly inventory: ToolInventory,
    private readonly toolsets: Toolsets,
    private readonly clock: Clock,
  ) {}

  @Serves('GET /api/v1/keys')
  async list(@Caller() caller: Principal) {
    return (await orUnavailable(STORE, this.keys.list(tenantScope(caller)))).map(toKeyBody);
  }

  @Serves('POST /api/v1/keys')
  async create(@Caller() caller: Principal, @Input() { body }: RouteInput<'POST /api/v1/keys'>) {
    requireTier(this.limits, body.tier);
    const { token, key } = await orUnavailable(
      STORE,
      this.keys.issue(
        toKeySpec(caller, {
          tenantId: body.tenant_id,
          client: body.client,
          userId: body.user_id,
          roles: body.roles,
          tools: body.tools,
          projects: body.projects,
          toolset: body.toolset,
          tier: body.tier,
          mcpMode: body.mcp_mode,
          expiresAt:
            body.expires_in_seconds === undefined ? undefined : this.clock.now() + body.expires_in_seconds * 1_000,
        }),
        caller.userId,
      ),
    );
    return { ...toKeyBody(key), token, warnings: await this.unknownNames(key.tenantId, body) };
  }

  @Serves('PUT /api/v1/keys/{id}')
  async change(@Caller() caller: Principal, @Input() { path, body }: RouteInput<'PUT /api/v1/keys/{id}'>) {
    requireTier(this.limits, body.tier);
    const { mcp_mode: mcpMode, ...rights } = body;
    const changing = this.keys.change(path.id, tenantScope(caller), (key) =>
      toChangedKeySpec(caller, key, { ...rights, mcpMode }),
    );
    const key = await orUnavailable(STORE, changing);
    if (!key) throw new ToolError('NOT_FOUND', { message: `No valid key '${path.id}'` });
    return toKeyBody(key);
  }

  /** Sources and toolsets may come after their keys, so unknown names are not refused. Without the registry none is known. */
  private async unknownNames(
    tenantId: string,
    { tools = [], toolset }: RouteInput<'POST /api/v1/keys'>['body'],
  ): Promise<string[]> {
    const ref = toolset === undefined ? undefined : parseToolsetRef(toolset);
    const [unmatched, missing] = await Promise.all([
      tools.length === 0 ? [] : this.inventory.unmatched(tenantId, tools).catch(() => []),
      ref &&
        this.toolsets.view(tenantId, ref).then(
          () => undefined,
          (error: unknown) => (isToolError(error) && error.code === 'NOT_FOUND' ? error.message : undefined),
        ),
    ]);
    return missing === undefined ? unmatched : [...unmatched, missing];
  }

  /** Answers 204; with `children`, the ids of the revoked keys. */
  @Serves('DELETE /api/v1/keys/{id}')
  async revoke(
    @Caller() caller: Principal,
    @Input() { path: { id }, query: { children: withChildren } }: RouteInput<'DELETE /api/v1/keys/{id}'>,
    @Res({ passthrough: true }) reply: FastifyReply,
  ) {
    const scope = tenantScope(caller);
    const revoking: Promise<string[] | boolean | undefined> = withChildren
      ? this.keys.revokeWithChildren(id, scope)
      : this.keys.revoke(id, scope);
    const revoked = await orUnavailable(STORE, revoking);
    if (!revoked) throw new ToolError('NOT_FOUND', { message: `No key '${id}'` });
    if (Array.isArray(revoked)) return { revoked };
    void reply.status(204);
    return undefined;
  }
}

/** The tenant whose keys the caller administers; undefined for all tenants. */
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
    roles: key.roles,
    tools: key.tools,
    projects: key.projects ?? [],
    toolset: key.toolset ?? null,
    tier: key.tier ?? null,
    mcp_mode: key.mcpMode ?? null,
    parent_id: key.parentId ?? null,
    person: key.root ? { tenant_id: key.root.tenantId, user_id: key.root.userId, kind: key.root.kind } : null,
    created_by: key.createdBy,
    created_at: toInstant(key.createdAt),
    expires_at: instantOrNull(key.expiresAt),
    revoked_at: instantOrNull(key.revokedAt),
    last_used_at: instantOrNull(key.lastUsedAt),
  };
}

/** The caller and its rights, so that a client can show what is possible. */
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
