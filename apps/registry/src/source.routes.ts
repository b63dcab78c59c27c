import { EVERY_TENANT, hasRight } from '@toolfleet/access/roles';
import { invalidRequest, isJsonObject, isToolError, ToolError, type Principal } from '@toolfleet/contracts';
import type { McpRegisterReply, OpenApiRegisterReply } from '@toolfleet/contracts/registry';
import { SHANNON_SOURCE_ROUTES, SOURCE_ROUTES, type Asked } from '@toolfleet/contracts/resources';
import type { ToolSource } from '@toolfleet/contracts/tool-definition';
import { AllowedEndpoints } from '@toolfleet/service';
import { Answers } from '@toolfleet/transport';
import { FleetSources } from './sources/fleet-sources.js';
import { Registrations, sourceTenantOf } from './sources/registrations.js';
import { SourceInspector } from './sources/source-inspector.js';
import { SourceStatuses } from './sources/source-statuses.js';

/** Registration with HTTP statuses; state, refresh and removal of sources. */
@Answers(SOURCE_ROUTES)
export class SourceRoutes {
  constructor(
    private readonly registrations: Registrations,
    private readonly sources: FleetSources,
    private readonly statuses: SourceStatuses,
    private readonly inspector: SourceInspector,
    private readonly allowedEndpoints: AllowedEndpoints,
  ) {}

  async registerMcp(asked: Asked<'registerMcp'>) {
    return requireTools('SOURCE_REFUSED', await this.registrations.mcp(asked));
  }

  async registerOpenApi(asked: Asked<'registerOpenApi'>) {
    return requireTools('SPEC_INVALID', await this.registrations.openapi(asked));
  }

  inspectSource({ body }: Asked<'inspectSource'>) {
    if ((body.url === undefined) === (body.document === undefined)) throw invalidRequest('Send url or document', 'url');
    return this.inspector.inspect(body);
  }

  async allowOrigins({ body }: Asked<'allowOrigins'>) {
    return { origins: this.allowedEndpoints.allow(body.origins) };
  }

  /** Sources of the caller's tenant, for operators all, for the holder of the registration token those of the fleet. */
  listSources({ principal }: Asked<'listSources'>) {
    const seesAll = principal && hasRight(principal, 'manage_sources', EVERY_TENANT);
    return this.statuses.list({ tenant: seesAll ? undefined : (principal?.tenantId ?? null) });
  }

  getSource(asked: Asked<'getSource'>) {
    return this.#show(toSource(asked));
  }

  /** Reads the document, or requests the server's tools, now. A failed refresh is in the answer. */
  async refreshSource(asked: Asked<'refreshSource'>) {
    const source = toSource(asked);
    await this.sources.refresh(source);
    return this.#show(source);
  }

  async retireSource(asked: Asked<'retireSource'>) {
    const source = toSource(asked);
    if (source.kind !== 'mcp' && source.kind !== 'openapi')
      throw invalidRequest(`${source.name} announces its tools itself; it cannot be removed`);
    return { removed: await this.sources.unregister(source) };
  }

  /** @throws ToolError NOT_FOUND */
  async #show(source: ToolSource) {
    const [status] = await this.statuses.list({ source });
    if (!status) throw new ToolError('NOT_FOUND', { message: `No source '${source.kind}/${source.name}'` });
    return status;
  }
}

/** Registration as in Shannon: a refused source is HTTP 200 with `success: false`. */
@Answers(SHANNON_SOURCE_ROUTES)
export class ShannonSourceRoutes {
  constructor(private readonly registrations: Registrations) {}

  registerMcpInBand(asked: Asked<'registerMcpInBand'>) {
    return inBand(this.registrations.mcp(asked), { tool_name: readName(asked.body) });
  }

  registerOpenApiInBand(asked: Asked<'registerOpenApiInBand'>) {
    const rest = { collection_name: readName(asked.body), operations_registered: [] };
    return inBand(this.registrations.openapi(asked), rest);
  }

  validateOpenApi(asked: Asked<'validateOpenApi'>) {
    return this.registrations.validate(asked);
  }
}

const SOURCE_KINDS = ['openapi', 'mcp', 'builtin', 'plugin'] as const satisfies readonly ToolSource['kind'][];

/**
 * The source of a path, by the name it was registered with; `?visibility=fleet` for one shared with all tenants.
 * @throws ToolError NOT_FOUND, PERMISSION_DENIED
 */
function toSource({ principal, path, query }: Asked<'getSource'>): ToolSource {
  const kind = SOURCE_KINDS.find((known) => known === path.kind);
  if (!kind)
    throw new ToolError('NOT_FOUND', {
      message: `kind must be one of ${SOURCE_KINDS.join(', ')}, not '${path.kind}'`,
    });
  return { kind, name: toSourceName(path.name, sourceTenantOf(principal, query.visibility), principal) };
}

/**
 * Name of a source at the registry: `<name>@<tenant>`. An operator may name a source of another tenant in this form.
 * @throws ToolError NOT_FOUND, the same for sources of other tenants and missing ones
 */
function toSourceName(name: string, tenant: string | undefined, principal: Principal | undefined): string {
  const mayNameAny = principal && hasRight(principal, 'manage_sources', EVERY_TENANT);
  if (tenant === undefined || (name.includes('@') && mayNameAny)) return name;
  const own = `@${tenant}`;
  const plain = name.endsWith(own) ? name.slice(0, -own.length) : name;
  if (plain.includes('@')) throw new ToolError('NOT_FOUND', { message: `No source '${name}'` });
  return plain + own;
}

/** Errors of the caller's credential keep their status; errors of the source are reported in-band. */
async function inBand<T, Rest extends object>(registered: Promise<T>, rest: Rest) {
  try {
    return await registered;
  } catch (error) {
    if (!isToolError(error) || error.code === 'PERMISSION_DENIED') throw error;
    const kind = error.code === 'SPEC_INVALID' ? 'Parse error' : 'Registration error';
    return { success: false, message: `${kind}: ${error.message}`, code: error.code, ...rest };
  }
}

/** Throws if a registration gave no tools; an answer with some tools lists the others. */
function requireTools<T extends McpRegisterReply | OpenApiRegisterReply>(
  code: 'SPEC_INVALID' | 'SOURCE_REFUSED',
  answer: T,
): T {
  if (answer.success !== false) return answer;
  const message = answer.message.replace(/^(?:Parse|Registration) error: /, '');
  const reason = /^([A-Z]+(?:_[A-Z]+)+): /.exec(message)?.[1];
  const refused = 'refused' in answer && answer.refused?.length ? answer.refused : undefined;
  throw new ToolError(code, { message, details: { reason, refused } });
}

const readName = (body: unknown): string => (isJsonObject(body) && typeof body.name === 'string' ? body.name : '');
