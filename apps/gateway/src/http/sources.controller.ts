import { Body, Controller, Injectable, Req } from '@nestjs/common';
import { isJsonObject, isToolError, ToolError, type Json, type Principal } from '@toolfleet/contracts';
import type { MessageOf, ReplyOf, Requested } from '@toolfleet/contracts/requests';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import type { ToolSource } from '@toolfleet/contracts/tool-definition';
import { NatsClient } from '@toolfleet/transport';
import type { RouteInput } from '@toolfleet/contracts/resources';
import { Caller } from '../server/guards.js';
import { bodyObject } from '../server/request-body.js';
import { Input, readInput, Serves } from '../server/routes.js';
import { EVERY_TENANT, hasRight, RegisterAuth, requireRight } from '@toolfleet/access';
import { askService } from './ask-service.js';
import type { HttpRequest } from './http-call.js';

/** Time to fetch and convert a large document. */
const REGISTER_TIMEOUT_MS = 60_000;

/** Subjects of the registry that check themselves what callers send. */
type Registration = typeof SUBJECTS.mcpRegister | typeof SUBJECTS.openapiRegister | typeof SUBJECTS.openapiValidate;

/**
 * Registers sources at the registry. Their tools belong to the caller's tenant; an operator shares them with all tenants by
 * `visibility: "fleet"`. Only such a source may use `${VAR}` of the fleet's environment; the registry refuses it in others.
 */
@Injectable()
export class SourceRegistrations {
  constructor(
    private readonly nats: NatsClient,
    private readonly auth: RegisterAuth,
  ) {}

  /** @throws ToolError UNAUTHENTICATED, PERMISSION_DENIED, REQUEST_INVALID, and the errors of the registry */
  async register<S extends Registration>(subject: S, http: HttpRequest, sent: unknown): Promise<ReplyOf<S>> {
    const caller = await this.auth.admit(http);
    const { visibility, tenant: _tenant, ...entry } = bodyObject(sent);
    const tenant = sourceOwner(caller, readVisibility(visibility));
    const scoped = tenant === undefined ? entry : { ...entry, tenant };
    return this.nats.request<ReplyOf<S>>(subject, scoped, { timeoutMs: REGISTER_TIMEOUT_MS });
  }
}

/** Lets the fleet that `npm start` runs connect to origins. In any other, what it may connect to is a setting. */
export class EgressPermissions {
  constructor(
    private readonly nats: NatsClient,
    private readonly isLocal: boolean,
  ) {}

  /** @throws ToolError REQUEST_INVALID; PERMISSION_DENIED for a fleet that npm start does not run */
  async allow(origins: string[]): Promise<{ origins: string[] }> {
    if (!this.isLocal)
      throw new ToolError('PERMISSION_DENIED', {
        message:
          'Only a fleet that npm start runs takes origins over its API; set EGRESS_ALLOWED_ENDPOINTS of its services',
      });
    return askService(this.nats, SUBJECTS.sourceAllow, { origins });
  }
}

/** Registration as in Shannon: a refused source is HTTP 200 with `success: false`. */
@Controller()
export class ShannonSourcesController {
  constructor(private readonly sources: SourceRegistrations) {}

  @Serves('POST /tools/mcp/register')
  mcp(@Body() body: unknown, @Req() http: HttpRequest) {
    return inBand(this.sources.register(SUBJECTS.mcpRegister, http, body), {
      tool_name: readName(body),
    });
  }

  @Serves('POST /tools/openapi/register')
  openapi(@Body() body: unknown, @Req() http: HttpRequest) {
    return inBand(this.sources.register(SUBJECTS.openapiRegister, http, body), {
      collection_name: readName(body),
      operations_registered: [],
    });
  }

  @Serves('POST /tools/openapi/validate')
  validate(@Body() body: unknown, @Req() http: HttpRequest) {
    return this.sources.register(SUBJECTS.openapiValidate, http, body);
  }
}

/** Registration with HTTP statuses; state, refresh and removal of sources. */
@Controller()
export class SourcesController {
  constructor(
    private readonly sources: SourceRegistrations,
    private readonly nats: NatsClient,
    private readonly auth: RegisterAuth,
    private readonly egress: EgressPermissions,
  ) {}

  @Serves('POST /api/v1/sources/mcp')
  async mcp(@Body() body: unknown, @Req() http: HttpRequest) {
    return requireTools('SOURCE_REFUSED', await this.sources.register(SUBJECTS.mcpRegister, http, body));
  }

  @Serves('POST /api/v1/sources/openapi')
  async openapi(@Body() body: unknown, @Req() http: HttpRequest) {
    return requireTools('SPEC_INVALID', await this.sources.register(SUBJECTS.openapiRegister, http, body));
  }

  @Serves('POST /api/v1/sources/inspect')
  async inspect(@Input() { body }: RouteInput<'POST /api/v1/sources/inspect'>, @Req() http: HttpRequest) {
    await this.auth.admit(http);
    if ((body.url === undefined) === (body.document === undefined))
      throw new ToolError('REQUEST_INVALID', { message: 'Send url or document', details: { fields: ['url'] } });
    return askService(this.nats, SUBJECTS.sourceInspect, body, REGISTER_TIMEOUT_MS);
  }

  @Serves('POST /api/v1/sources/allow')
  allow(@Input() { body }: RouteInput<'POST /api/v1/sources/allow'>) {
    return this.egress.allow(body.origins);
  }

  /** Sources of the caller's tenant, for operators all, for the holder of the registration token those of the fleet. */
  @Serves('GET /api/v1/sources')
  async list(@Req() http: HttpRequest) {
    const caller = await this.auth.admit(http);
    const seesAll = caller && hasRight(caller, 'manage_sources', EVERY_TENANT);
    return (await askService(this.nats, SUBJECTS.sourceList, seesAll ? {} : { tenant: caller?.tenantId ?? null }))
      .sources;
  }

  @Serves('GET /api/v1/sources/{kind}/{name}')
  async show(@Req() http: HttpRequest) {
    const source = this.find(http, await this.auth.admit(http));
    const { sources } = await askService(this.nats, SUBJECTS.sourceList, { source });
    if (!sources[0]) throw noSource(source);
    return sources[0];
  }

  /** Reads the document, or requests the server's tools, now. A look that failed is in the answer. */
  @Serves('POST /api/v1/sources/{kind}/{name}/refresh')
  async refresh(@Req() http: HttpRequest) {
    const source = this.find(http, await this.auth.admit(http));
    return askService(this.nats, SUBJECTS.sourceRefresh, { source }, REGISTER_TIMEOUT_MS);
  }

  @Serves('DELETE /api/v1/sources/{kind}/{name}')
  async retire(@Req() http: HttpRequest) {
    const source = this.find(http, await this.auth.admit(http));
    if (source.kind !== 'mcp' && source.kind !== 'openapi')
      throw new ToolError('REQUEST_INVALID', {
        message: `${source.name} announces its tools itself; it cannot be removed`,
      });
    return askService(this.nats, SUBJECTS.definitionRetire, { source });
  }

  /**
   * The source of a path, by the name it was registered with; `?visibility=fleet` for one shared with all tenants.
   * @throws ToolError NOT_FOUND, PERMISSION_DENIED
   */
  private find(http: HttpRequest, caller: Principal | undefined): ToolSource {
    const { kind, name } = http.params as { kind: string; name: string };
    if (!isSourceKind(kind))
      throw new ToolError('NOT_FOUND', { message: `kind must be one of ${SOURCE_KINDS.join(', ')}, not '${kind}'` });
    const { visibility } = readInput('GET /api/v1/sources/{kind}/{name}', http).query;
    const tenant = sourceOwner(caller, visibility ?? 'tenant');
    return { kind, name: sourceKey(name, tenant, caller) };
  }
}

const SOURCE_KINDS = ['openapi', 'mcp', 'builtin', 'plugin'] as const satisfies readonly ToolSource['kind'][];

function isSourceKind(kind: string): kind is ToolSource['kind'] {
  return SOURCE_KINDS.some((known) => known === kind);
}

function noSource({ kind, name }: ToolSource): ToolError {
  return new ToolError('NOT_FOUND', { message: `No source '${kind}/${name}'` });
}

/** Remote tools that changed after their approval, of an administrator's tenant, for operators of all tenants and the fleet. */
@Controller()
export class QuarantineController {
  constructor(private readonly nats: NatsClient) {}

  @Serves('GET /api/v1/quarantine')
  async list(@Caller() caller: Principal) {
    const { tools } = await askService(this.nats, SUBJECTS.quarantineList, {});
    return hasRight(caller, 'approve_tools', EVERY_TENANT)
      ? tools
      : tools.filter(({ name }) => name.startsWith(`${caller.tenantId}/`));
  }

  /** Approves exactly the revision that was shown. */
  @Serves('POST /api/v1/quarantine/{name}/approve')
  approve(@Caller() caller: Principal, @Input() { path, body }: RouteInput<'POST /api/v1/quarantine/{name}/approve'>) {
    const approved_by = `${caller.tenantId}/${caller.userId}`;
    return this.decide(SUBJECTS.quarantineApprove, caller, (name) => ({ ...body, name, approved_by }), path.name);
  }

  /** The tool stays quarantined until its server serves another revision, or it is approved. */
  @Serves('POST /api/v1/quarantine/{name}/reject')
  reject(@Caller() caller: Principal, @Input() { path, body }: RouteInput<'POST /api/v1/quarantine/{name}/reject'>) {
    const rejected_by = `${caller.tenantId}/${caller.userId}`;
    return this.decide(SUBJECTS.quarantineReject, caller, (name) => ({ ...body, name, rejected_by }), path.name);
  }

  /**
   * Resolves the name: `<tenant>/<name>`, as listed, is that tool; a plain name is a tool of the caller's tenant, for operators a
   * tool of the fleet first.
   */
  private async decide<S extends Requested>(
    subject: S,
    caller: Principal,
    messageFor: (name: string) => MessageOf<S>,
    name: string,
  ): Promise<ReplyOf<S>> {
    const ask = (key: string) => askService(this.nats, subject, messageFor(key));
    if (!hasRight(caller, 'approve_tools', EVERY_TENANT)) {
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
 * The tenant that a source belongs to; undefined for the whole fleet, which needs an operator.
 * @throws ToolError PERMISSION_DENIED
 */
function sourceOwner(caller: Principal | undefined, visibility: 'tenant' | 'fleet'): string | undefined {
  if (caller === undefined) return undefined; // the holder of MCP_REGISTER_TOKEN acts for the fleet
  if (visibility === 'tenant') return caller.tenantId;
  requireRight(caller, 'operate_fleet', 'visibility fleet');
  return undefined;
}

/**
 * Name of a source at the registry: `<name>@<tenant>`. An operator may name a source of another tenant in this form.
 * @throws ToolError NOT_FOUND, the same for sources of other tenants and missing ones
 */
function sourceKey(name: string, tenant: string | undefined, caller: Principal | undefined): string {
  if (tenant === undefined || (caller && name.includes('@') && hasRight(caller, 'manage_sources', EVERY_TENANT)))
    return name;
  const own = `@${tenant}`;
  const plain = name.endsWith(own) ? name.slice(0, -own.length) : name;
  if (plain.includes('@')) throw new ToolError('NOT_FOUND', { message: `No source '${name}'` });
  return plain + own;
}

/** Whether the tools of a source belong to the caller's tenant (default) or to the fleet. */
function readVisibility(value: Json | undefined): 'tenant' | 'fleet' {
  if (value === undefined || value === 'tenant') return 'tenant';
  if (value === 'fleet') return 'fleet';
  throw new ToolError('REQUEST_INVALID', {
    message: "visibility must be 'tenant' or 'fleet'",
    details: { fields: ['visibility'] },
  });
}

/** Errors of the caller's credential keep their status; errors of the source are reported in-band. */
async function inBand<T, Rest extends object>(registered: Promise<T>, rest: Rest) {
  try {
    return await registered;
  } catch (error) {
    if (!isToolError(error) || ['UNAUTHENTICATED', 'PERMISSION_DENIED'].includes(error.code)) throw error;
    const kind = error.code === 'SPEC_INVALID' ? 'Parse error' : 'Registration error';
    return { success: false, message: `${kind}: ${error.message}`, code: error.code, ...rest };
  }
}

/** Throws if a registration gave no tools; an answer with some tools lists what is missing. */
function requireTools<T extends ReplyOf<typeof SUBJECTS.mcpRegister | typeof SUBJECTS.openapiRegister>>(
  code: 'SPEC_INVALID' | 'SOURCE_REFUSED',
  answer: T,
): T {
  if (answer.success !== false) return answer;
  const message = answer.message.replace(/^(?:Parse|Registration) error: /, '');
  const reason = /^([A-Z]+(?:_[A-Z]+)+): /.exec(message)?.[1];
  const refused = 'refused' in answer ? answer.refused : undefined;
  throw new ToolError(code, {
    message,
    details: {
      ...(reason === undefined ? {} : { reason }),
      ...(refused && refused.length > 0 ? { refused } : {}),
    },
  });
}

const readName = (body: unknown): string => (isJsonObject(body) && typeof body.name === 'string' ? body.name : '');
