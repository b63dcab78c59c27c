import { IsArray, IsIn, IsInt, IsOptional, IsString, MaxLength, Min, MinLength } from 'class-validator';
import { Body, Controller, Delete, Get, HttpCode, Param, Post, Query, Res } from '@nestjs/common';
import { MCP_MODES, ToolError, type McpMode, type Principal } from '@toolfleet/contracts';
import { Clock } from '@toolfleet/resilience';
import { VERSION } from '@toolfleet/service';
import type { FastifyReply } from 'fastify';
import { ApiKeys, type KeyView, toKeySpec, isOperator, isAdmin, RequestLimits } from '@toolfleet/access';
import { AdminOnly, Caller } from '../server/guards.js';
import { orUnavailable } from '@toolfleet/queue/redis';
import { readerFor } from '../server/request-body.js';

/** Body of `POST /api/v1/keys`. */
class CreateKeyBody {
  @IsString()
  @MinLength(1)
  @MaxLength(64)
  client!: string;

  /** Default: the caller's tenant; only operators may name another. */
  @IsOptional()
  @IsString()
  @MinLength(1)
  @MaxLength(64)
  tenant_id?: string;

  @IsOptional()
  @IsString()
  @MinLength(1)
  @MaxLength(128)
  user_id?: string;

  @IsOptional()
  @IsArray()
  @IsString({ each: true })
  roles?: string[];

  @IsOptional()
  @IsArray()
  @IsString({ each: true })
  tools?: string[];

  @IsOptional()
  @IsArray()
  @IsString({ each: true })
  projects?: string[];

  /** Toolset to bind the key to: `name`, or `name@version`. */
  @IsOptional()
  @IsString()
  @MaxLength(80)
  toolset?: string;

  @IsOptional()
  @IsString()
  @MaxLength(64)
  tier?: string;

  /** The tools that MCP requests of the key see; absent: as their URL or `MCP_SURFACE` chooses. */
  @IsOptional()
  @IsIn(MCP_MODES)
  mcp_mode?: McpMode;

  /** Lifetime of the key in seconds; without one it is valid until revoked, or until the caller's credential expires. */
  @IsOptional()
  @IsInt()
  @Min(60)
  expires_in_seconds?: number;
}

/** Query of `DELETE /api/v1/keys/:id`. */
class RevokeQuery {
  /** Revokes all keys made with it, too. */
  @IsOptional()
  @IsIn(['true', 'false'])
  children?: 'true' | 'false';
}

const STORE = 'The store of keys';

const readBody = readerFor(CreateKeyBody);
const readRevokeQuery = readerFor(RevokeQuery);

/** API keys of an administrator's tenant, for operators of all tenants. The token of a key is shown once, when it is created. */
@AdminOnly()
@Controller('api/v1/keys')
export class KeysController {
  constructor(
    private readonly keys: ApiKeys,
    private readonly limits: RequestLimits,
    private readonly clock: Clock,
  ) {}

  @Get()
  async list(@Caller() caller: Principal) {
    return (await orUnavailable(STORE, this.keys.list(tenantScope(caller)))).map(toKeyBody);
  }

  @Post()
  async create(@Caller() caller: Principal, @Body() raw: unknown) {
    const body = readBody(raw);
    const { tierNames } = this.limits;
    if (body.tier !== undefined && !tierNames.includes(body.tier)) {
      // An unknown tier would silently get the limits of the smallest one.
      throw new ToolError('REQUEST_INVALID', {
        message: `tier must be one of ${tierNames.join(', ')}`,
        details: { fields: ['tier'] },
      });
    }
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
    return { ...toKeyBody(key), token };
  }

  /** Answers 204; with `children`, the ids of the revoked keys. */
  @Delete(':id')
  @HttpCode(204)
  async revoke(
    @Caller() caller: Principal,
    @Param('id') id: string,
    @Query() query: unknown,
    @Res({ passthrough: true }) reply: FastifyReply,
  ) {
    const scope = tenantScope(caller);
    const withChildren = readRevokeQuery(query).children === 'true';
    const revoking: Promise<string[] | boolean | undefined> = withChildren
      ? this.keys.revokeWithChildren(id, scope)
      : this.keys.revoke(id, scope);
    const revoked = await orUnavailable(STORE, revoking);
    if (!revoked) throw new ToolError('NOT_FOUND', { message: `No key '${id}'` });
    if (!withChildren) return undefined;
    reply.status(200);
    return { revoked };
  }
}

/** The tenant whose keys the caller administers; undefined for all tenants. */
const tenantScope = (caller: Principal): string | undefined => (isOperator(caller) ? undefined : caller.tenantId);

function toKeyBody(key: KeyView) {
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
    created_by: key.createdBy,
    created_at: new Date(key.createdAt).toISOString(),
    expires_at: key.expiresAt === undefined ? null : new Date(key.expiresAt).toISOString(),
    revoked_at: key.revokedAt === undefined ? null : new Date(key.revokedAt).toISOString(),
    last_used_at: key.lastUsedAt === undefined ? null : new Date(key.lastUsedAt).toISOString(),
  };
}

/** The caller and its rights, so that a client can show what is possible. */
@Controller('api/v1/me')
export class MeController {
  constructor(private readonly limits: RequestLimits) {}

  @Get()
  me(@Caller() caller: Principal) {
    const tier = this.limits.tier(caller);
    return {
      tenant_id: caller.tenantId,
      user_id: caller.userId,
      roles: caller.roles,
      admin: isAdmin(caller),
      operator: isOperator(caller),
      via: caller.via,
      key_id: caller.keyId ?? null,
      tools: caller.tools,
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
