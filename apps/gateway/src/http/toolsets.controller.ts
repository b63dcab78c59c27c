import { Body, Controller, Delete, Get, HttpCode, Param, Post, Put, Query } from '@nestjs/common';
import { isJsonObject, ToolError, type Principal } from '@toolfleet/contracts';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import {
  TOOLSET_NAME_PATTERN,
  type ToolsetApprove,
  type ToolsetDetail,
  type ToolsetList,
  type ToolsetListReply,
  type ToolsetPut,
  type ToolsetRemove,
  type ToolsetRemoveReply,
  type ToolsetShow,
  type ToolsetSpec,
} from '@toolfleet/contracts/toolset';
import { NatsClient } from '@toolfleet/transport';
import { IsIn, IsInt, IsOptional, IsString, Matches, MaxLength, Min, MinLength } from 'class-validator';
import { AdminOnly, Caller } from '../server/guards.js';
import { isOperator, requireOperator } from '@toolfleet/access';
import { ToolList } from '@toolfleet/catalog';
import { readerFor } from '../server/request-body.js';

const REQUEST_TIMEOUT_MS = 10_000;

/** Query of all routes of one toolset. */
class VersionQuery {
  /** `fleet`: a toolset that is shared with all tenants (operators). */
  @IsOptional()
  @IsIn(['tenant', 'fleet'])
  visibility?: 'tenant' | 'fleet';

  /** The version to show; absent: the latest. */
  @IsOptional()
  @Matches(/^[1-9]\d{0,8}$/, { message: 'version must be a positive integer' })
  version?: string;
}

class RollbackBody {
  @IsInt()
  @Min(1)
  version!: number;
}

class ApproveBody {
  /** Original name of the tool. */
  @IsString()
  @MinLength(1)
  @MaxLength(64)
  tool!: string;

  @IsString()
  @MinLength(1)
  @MaxLength(64)
  pending_revision!: string;
}

const readQuery = readerFor(VersionQuery);
const readRollback = readerFor(RollbackBody);
const readApprove = readerFor(ApproveBody);

/** Toolsets of an administrator's tenant, for operators of all tenants and shared ones (docs/toolsets.md). */
@AdminOnly()
@Controller('api/v1/toolsets')
export class ToolsetsController {
  constructor(
    private readonly nats: NatsClient,
    private readonly tools: ToolList,
  ) {}

  /** The latest version of each, for administrators also of those that are shared with all tenants. */
  @Get()
  async list(@Caller() caller: Principal) {
    const ask = (request: ToolsetList) => this.ask<ToolsetListReply>(SUBJECTS.toolsetList, request);
    if (isOperator(caller)) return (await ask({})).toolsets;
    const [own, shared] = await Promise.all([ask({ tenant: caller.tenantId }), ask({ tenant: null })]);
    return [...own.toolsets, ...shared.toolsets];
  }

  /** One version with its spec, the history, and the tools that callers of the tenant see in it. */
  @Get(':name')
  async show(@Caller() caller: Principal, @Param('name') name: string, @Query() query: unknown) {
    const { visibility, version } = readQuery(query);
    const id = toId(caller, name, visibility, 'read');
    const request: ToolsetShow = { id, version: version === undefined ? undefined : Number(version) };
    return this.withTools(caller, await this.ask<ToolsetDetail>(SUBJECTS.toolsetShow, request));
  }

  /** Makes a new version of a toolset, which need not exist. */
  @Put(':name')
  async put(
    @Caller() caller: Principal,
    @Param('name') name: string,
    @Query() query: unknown,
    @Body() spec: unknown,
  ): Promise<object> {
    if (!isJsonObject(spec))
      throw new ToolError('REQUEST_INVALID', { message: 'The request body must be a JSON object' });
    const id = toId(caller, name, readQuery(query).visibility, 'write');
    const request: ToolsetPut = { id, spec: spec as ToolsetSpec, by: toAuthor(caller) };
    return this.withTools(caller, await this.ask<ToolsetDetail>(SUBJECTS.toolsetPut, request));
  }

  /** Makes a new version with the content of an older one. */
  @Post(':name/rollback')
  @HttpCode(200)
  async rollback(
    @Caller() caller: Principal,
    @Param('name') name: string,
    @Query() query: unknown,
    @Body() body: unknown,
  ) {
    const id = toId(caller, name, readQuery(query).visibility, 'write');
    const request: ToolsetPut = { id, restore_version: readRollback(body).version, by: toAuthor(caller) };
    return this.withTools(caller, await this.ask<ToolsetDetail>(SUBJECTS.toolsetPut, request));
  }

  /** Approves an override whose tool changed, for exactly the revision that was shown. */
  @Post(':name/approve')
  @HttpCode(200)
  async approve(
    @Caller() caller: Principal,
    @Param('name') name: string,
    @Query() query: unknown,
    @Body() body: unknown,
  ) {
    const id = toId(caller, name, readQuery(query).visibility, 'write');
    const request: ToolsetApprove = { id, ...readApprove(body), by: toAuthor(caller) };
    return this.withTools(caller, await this.ask<ToolsetDetail>(SUBJECTS.toolsetApprove, request));
  }

  @Delete(':name')
  remove(@Caller() caller: Principal, @Param('name') name: string, @Query() query: unknown) {
    const id = toId(caller, name, readQuery(query).visibility, 'write');
    return this.ask<ToolsetRemoveReply>(SUBJECTS.toolsetRemove, { id } satisfies ToolsetRemove);
  }

  /** Adds the tools; for a shared toolset, those that the caller's own tenant sees in it. */
  private async withTools(caller: Principal, detail: ToolsetDetail): Promise<object> {
    const tenantId = detail.tenant ?? caller.tenantId;
    const toolset = { name: detail.name, version: detail.version };
    // A tenant's own toolset takes precedence over a shared one of the same name, whose tools are then unknown here.
    const { tools } = await this.tools
      .all({ tenantId, userId: caller.userId, roles: [], tools: ['*'], via: caller.via, toolset })
      .catch(() => ({ tools: undefined }));
    return { ...detail, tools: tools?.map(({ name }) => name) ?? null };
  }

  private ask<T>(subject: string, body: object): Promise<T> {
    return this.nats.request<T>(subject, body, { timeoutMs: REQUEST_TIMEOUT_MS });
  }
}

const toAuthor = ({ tenantId, userId }: Principal): string => `${tenantId}/${userId}`.slice(0, 200);

/**
 * Id of a toolset at the registry: `name@tenant`, or `name` of a shared one. An operator may name one of another tenant.
 * @throws ToolError PERMISSION_DENIED; NOT_FOUND for toolsets of other tenants; REQUEST_INVALID
 */
function toId(
  caller: Principal,
  given: string,
  visibility: 'tenant' | 'fleet' | undefined,
  access: 'read' | 'write',
): string {
  const [name = '', tenant] = given.split('@', 2);
  if (!TOOLSET_NAME_PATTERN.test(name)) {
    throw new ToolError('REQUEST_INVALID', {
      message: 'The name of a toolset needs 1 to 64 letters, digits, "_" and "-"',
      details: { fields: ['name'] },
    });
  }
  if (access === 'write' && caller.toolset?.bound && caller.toolset.name === name) {
    // It decides what the credential may call. A tenant's own toolset would also replace a shared one of this name.
    throw new ToolError('PERMISSION_DENIED', { message: `Your key is bound to toolset ${name} and cannot change it` });
  }
  if (visibility === 'fleet') {
    if (access === 'write') requireOperator(caller, 'visibility fleet');
    return name;
  }
  if (tenant === undefined || tenant === caller.tenantId) return `${name}@${caller.tenantId}`;
  if (!isOperator(caller)) throw new ToolError('NOT_FOUND', { message: `No toolset '${given}'` });
  return `${name}@${tenant}`;
}
