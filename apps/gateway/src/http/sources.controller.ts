import { Body, Controller, Delete, Get, HttpCode, Injectable, Param, Post, Query, Req } from '@nestjs/common';
import { isJsonObject, isToolError, ToolError, type Json, type JsonObject, type Principal } from '@toolfleet/contracts';
import type {
  DefinitionRetire,
  QuarantineApproveReply,
  QuarantineListReply,
  QuarantineRejectReply,
} from '@toolfleet/contracts/registry';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import { NatsClient } from '@toolfleet/transport';
import { AdminOnly, Caller, Public } from '../auth/auth.guard.js';
import { RegisterAuth } from '../auth/register-auth.js';
import { isOperator, requireOperator } from '../auth/roles.js';
import type { HttpRequest } from './http-call.js';

/** Fetching and converting a large document takes a while. */
const REGISTER_TIMEOUT_MS = 60_000;
const ASK_TIMEOUT_MS = 10_000;

/**
 * Asks the registry to take in a source. The tools belong to the caller's tenant; an operator shares them with every tenant by
 * `visibility: "fleet"`, and only such a source may use the fleet's `${VAR}`: the registry refuses them in one of a tenant.
 */
@Injectable()
export class SourceRegistrations {
  constructor(
    private readonly nats: NatsClient,
    private readonly auth: RegisterAuth,
  ) {}

  /** @throws ToolError UNAUTHENTICATED, PERMISSION_DENIED, REQUEST_INVALID, and whatever the registry refuses with */
  async register(subject: string, http: HttpRequest, body: unknown): Promise<JsonObject> {
    const caller = await this.auth.admit(http);
    if (!isJsonObject(body))
      throw new ToolError('REQUEST_INVALID', { message: 'The request body must be a JSON object' });
    const { visibility, tenant: _tenant, ...entry } = body;
    const tenant = sourceOwner(caller, readVisibility(visibility));
    const scoped = tenant === undefined ? entry : { ...entry, tenant };
    return this.nats.request<JsonObject>(subject, scoped, { timeoutMs: REGISTER_TIMEOUT_MS });
  }
}

/** Registration as users of Shannon know it: a refused source is HTTP 200 with `success: false`. */
@Public() // RegisterAuth asks for the credential: the token of these paths is not an API key
@Controller('tools')
export class ShannonSourcesController {
  constructor(private readonly sources: SourceRegistrations) {}

  @Post('mcp/register')
  @HttpCode(200)
  mcp(@Body() body: unknown, @Req() http: HttpRequest) {
    return inBand(this.sources.register(SUBJECTS.mcpRegister, http, body), { tool_name: readName(body) });
  }

  @Post('openapi/register')
  @HttpCode(200)
  openapi(@Body() body: unknown, @Req() http: HttpRequest) {
    return inBand(this.sources.register(SUBJECTS.openapiRegister, http, body), {
      collection_name: readName(body),
      operations_registered: [],
    });
  }

  @Post('openapi/validate')
  @HttpCode(200)
  validate(@Body() body: unknown, @Req() http: HttpRequest) {
    return this.sources.register(SUBJECTS.openapiValidate, http, body);
  }
}

/** The same with statuses, and what else administrators do with sources. */
@Public()
@Controller('api/v1/sources')
export class SourcesController {
  constructor(
    private readonly sources: SourceRegistrations,
    private readonly nats: NatsClient,
    private readonly auth: RegisterAuth,
  ) {}

  @Post('mcp')
  async mcp(@Body() body: unknown, @Req() http: HttpRequest) {
    return takenIn('SOURCE_REFUSED', await this.sources.register(SUBJECTS.mcpRegister, http, body));
  }

  @Post('openapi')
  async openapi(@Body() body: unknown, @Req() http: HttpRequest) {
    return takenIn('SPEC_INVALID', await this.sources.register(SUBJECTS.openapiRegister, http, body));
  }

  /** Undoes a registration under the name it was made with; with `?visibility=fleet` one that was made for all. */
  @Delete(':kind/:name')
  async retire(
    @Param('kind') kind: string,
    @Param('name') name: string,
    @Query() query: unknown,
    @Req() http: HttpRequest,
  ) {
    const caller = await this.auth.admit(http);
    if (kind !== 'mcp' && kind !== 'openapi')
      throw new ToolError('NOT_FOUND', { message: `No kind of source '${kind}'` });
    const tenant = sourceOwner(caller, readVisibility(isJsonObject(query) ? query.visibility : undefined));
    const body: DefinitionRetire = { source: { kind, name: sourceKey(name, tenant, caller) } };
    return this.nats.request<JsonObject>(SUBJECTS.definitionRetire, body, { timeoutMs: ASK_TIMEOUT_MS });
  }
}

/** Remote tools that changed after their approval: of an administrator's tenant, for operators of every tenant and the fleet. */
@AdminOnly()
@Controller('api/v1/quarantine')
export class QuarantineController {
  constructor(private readonly nats: NatsClient) {}

  @Get()
  async list(@Caller() caller: Principal) {
    const ask = this.nats.request<QuarantineListReply>(SUBJECTS.quarantineList, {}, { timeoutMs: ASK_TIMEOUT_MS });
    const { tools } = await ask;
    return isOperator(caller) ? tools : tools.filter(({ name }) => name.startsWith(`${caller.tenantId}/`));
  }

  /** Body `{pending_revision}`: exactly what was shown is approved. */
  @Post(':name/approve')
  @HttpCode(200)
  approve(@Caller() caller: Principal, @Param('name') name: string, @Body() body: unknown) {
    const message = { pending_revision: readRevision(body), approved_by: `${caller.tenantId}/${caller.userId}` };
    return this.decide<QuarantineApproveReply>(SUBJECTS.quarantineApprove, caller, name, message);
  }

  /** Body `{pending_revision}`: the tool stays out until its server serves something else, or somebody approves. */
  @Post(':name/reject')
  @HttpCode(200)
  reject(@Caller() caller: Principal, @Param('name') name: string, @Body() body: unknown) {
    const message = { pending_revision: readRevision(body), rejected_by: `${caller.tenantId}/${caller.userId}` };
    return this.decide<QuarantineRejectReply>(SUBJECTS.quarantineReject, caller, name, message);
  }

  /**
   * `<tenant>/<name>`, as listed, means that tool. A plain name means one of the caller's tenant; for an operator a tool of the
   * fleet first.
   */
  private async decide<T>(subject: string, caller: Principal, name: string, message: JsonObject): Promise<T> {
    const ask = (key: string) =>
      this.nats.request<T>(subject, { ...message, name: key }, { timeoutMs: ASK_TIMEOUT_MS });
    if (!isOperator(caller)) {
      const own = `${caller.tenantId}/`;
      if (name.includes('/') && !name.startsWith(own))
        throw new ToolError('NOT_FOUND', { message: `No tool '${name}' awaits approval in tenant ${caller.tenantId}` });
      return ask(name.startsWith(own) ? name : `${own}${name}`);
    }
    try {
      return await ask(name);
    } catch (error) {
      if (name.includes('/') || !isToolError(error) || error.code !== 'NOT_FOUND') throw error;
      return ask(`${caller.tenantId}/${name}`);
    }
  }
}

/**
 * The tenant a source belongs to; undefined for the whole fleet, which takes an operator.
 * @throws ToolError PERMISSION_DENIED
 */
function sourceOwner(caller: Principal | undefined, visibility: 'tenant' | 'fleet'): string | undefined {
  if (caller === undefined) return undefined; // the holder of MCP_REGISTER_TOKEN acts for the fleet
  if (visibility === 'tenant') return caller.tenantId;
  requireOperator(caller, 'visibility fleet');
  return undefined;
}

/**
 * Name of a source at the registry: `<name>@<tenant>`. An operator may name another tenant's that way.
 * @throws ToolError NOT_FOUND, for other tenants' sources like for missing ones
 */
function sourceKey(name: string, tenant: string | undefined, caller: Principal | undefined): string {
  if (tenant === undefined || (caller && isOperator(caller) && name.includes('@'))) return name;
  const own = `@${tenant}`;
  const plain = name.endsWith(own) ? name.slice(0, -own.length) : name;
  if (plain.includes('@')) throw new ToolError('NOT_FOUND', { message: `No source '${name}'` });
  return plain + own;
}

/** Whose tools a source gives; by default those of the caller's tenant. */
function readVisibility(value: Json | undefined): 'tenant' | 'fleet' {
  if (value === undefined || value === 'tenant') return 'tenant';
  if (value === 'fleet') return 'fleet';
  throw new ToolError('REQUEST_INVALID', {
    message: "visibility must be 'tenant' or 'fleet'",
    details: { fields: ['visibility'] },
  });
}

function readRevision(body: unknown): string {
  const revision = isJsonObject(body) ? body.pending_revision : undefined;
  if (typeof revision === 'string') return revision;
  throw new ToolError('REQUEST_INVALID', {
    message: 'pending_revision is required',
    details: { fields: ['pending_revision'] },
  });
}

/** Refusals of the caller keep their status; what is wrong with the source is told in-band. */
async function inBand(registered: Promise<JsonObject>, rest: JsonObject): Promise<JsonObject> {
  try {
    return await registered;
  } catch (error) {
    if (!isToolError(error) || ['UNAUTHENTICATED', 'PERMISSION_DENIED'].includes(error.code)) throw error;
    const kind = error.code === 'SPEC_INVALID' ? 'Parse error' : 'Registration error';
    return { success: false, message: `${kind}: ${error.message}`, code: error.code, ...rest };
  }
}

/** An answer that gave no tools as the error it is; one that gave some says itself what is missing. */
function takenIn(code: 'SPEC_INVALID' | 'SOURCE_REFUSED', answer: JsonObject): JsonObject {
  if (answer.success !== false) return answer;
  const message = String(answer.message).replace(/^(?:Parse|Registration) error: /, '');
  const reason = /^([A-Z]+(?:_[A-Z]+)+): /.exec(message)?.[1];
  const { refused } = answer;
  throw new ToolError(code, {
    message,
    details: {
      ...(reason === undefined ? {} : { reason }),
      ...(Array.isArray(refused) && refused.length > 0 ? { refused } : {}),
    },
  });
}

const readName = (body: unknown): string => (isJsonObject(body) && typeof body.name === 'string' ? body.name : '');
