import { requireRight } from '@toolfleet/access/roles';
import { invalidRequest, isJsonObject, isToolError, type JsonObject, type Principal } from '@toolfleet/contracts';
import { maybe, record, text } from '@toolfleet/contracts/json-schema';
import type { McpRegisterReply, OpenApiRegisterReply } from '@toolfleet/contracts/registry';
import { faultLine, readMcpEntry, type McpEntry, type OpenApiEntry } from '@toolfleet/fleet-file';
import { validateMessage } from '@toolfleet/bounded-schema';
import { SourceStore } from '../source-store.js';
import { sourceName } from '../tool-key.js';
import { restoreKept } from './kept-secrets.js';
import type { McpSource } from './mcp.source.js';
import type { OpenApiSource } from './openapi.source.js';
import { sealMcpSecrets, sealOpenApiSecrets, type SealFor } from './secrets.js';

/** Fields that start a process on the executor's machine. Only the configuration file may set them. */
const LOCAL_FIELDS = ['command', 'args', 'env', 'cwd', 'memory_limit_mb'] as const;

const LINE = text(undefined, { minLength: 1, maxLength: 4_096 });
/** The source checks the other fields, and names them as the configuration file does. */
const readOpenApi = validateMessage<OpenApiEntry>(record({ name: LINE }));
const readMcp = validateMessage<McpEntry>(record({ name: LINE, url: LINE, tenant: maybe(LINE) }));

/** Who registers a source, and with which body. */
interface Registration {
  /** Undefined: the holder of the registration token, who acts for the fleet. */
  principal: Principal | undefined;
  body: unknown;
  /** `preview`: nothing is registered. */
  query?: { preview?: boolean | undefined };
}

interface RegistrationsDeps {
  openapi: Pick<OpenApiSource, 'add' | 'validate'>;
  mcp: Pick<McpSource, 'add'>;
  sources: SourceStore;
  sealFor: { openapi: SealFor; mcp: SealFor };
}

/**
 * Registers sources at run time. Their tools belong to the caller's tenant; an operator shares them with all tenants by
 * `visibility: "fleet"`. Only such a source may use `${VAR}` of the fleet's environment.
 */
export class Registrations {
  constructor(private readonly deps: RegistrationsDeps) {}

  /** @throws ToolError PERMISSION_DENIED, REQUEST_INVALID, TOOL_NAME_CONFLICT, and what the source refuses */
  async openapi(registration: Registration): Promise<OpenApiRegisterReply> {
    const { openapi, sources, sealFor } = this.deps;
    const sent = scoped(registration);
    const { restored, own, name } = await this.#restored('openapi', sent);
    const message = readOpenApi(restored);
    sources.claim('openapi', message.name, message.tenant, own);
    const sealed = seal(message, sealFor.openapi?.(name));
    if (registration.query?.preview) return openapi.add(sealed, 'preview');
    return openapi.add(sealed, { kind: 'openapi', name, body: sealed as unknown as JsonObject });
  }

  /** @throws ToolError as `openapi` */
  async mcp(registration: Registration): Promise<McpRegisterReply> {
    const { mcp, sources, sealFor } = this.deps;
    const sent = scoped(registration);
    const { restored, own, name } = await this.#restored('mcp', sent);
    const message = readMcp(restored);
    sources.claim('mcp', message.name, message.tenant, own);
    const entry = toEntry(message);
    let stored: McpEntry;
    try {
      stored = sealMcpSecrets(entry, sealFor.mcp?.(name));
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      const refused = { success: false, registered: [], quarantined: [] };
      return { ...refused, tool_name: message.name, message: `Registration error: ${reason}` };
    }
    if (registration.query?.preview) return mcp.add(stored, 'preview');
    return mcp.add(stored, { kind: 'mcp', name, body: stored as unknown as JsonObject });
  }

  /** The sent registration with kept values of the stored one. */
  async #restored(kind: 'openapi' | 'mcp', sent: JsonObject) {
    const name = sourceName(String(sent['name']), sent['tenant'] as string | undefined);
    const stored = (await this.deps.sources.registrations(kind)).find((one) => one.name === name);
    return { ...restoreKept(sent, stored?.body), name };
  }

  validate(registration: Registration) {
    return this.deps.openapi.validate(scoped(registration));
  }
}

/** The body, with the tenant that owns the tools. @throws ToolError REQUEST_INVALID, PERMISSION_DENIED */
function scoped({ principal, body }: Registration): JsonObject {
  if (!isJsonObject(body)) throw invalidRequest('The request body must be a JSON object');
  const { visibility = 'tenant', tenant: _tenant, ...entry } = body;
  if (visibility !== 'tenant' && visibility !== 'fleet')
    throw invalidRequest("visibility must be 'tenant' or 'fleet'", 'visibility');
  const tenant = sourceTenantOf(principal, visibility);
  return tenant === undefined ? entry : { ...entry, tenant };
}

/**
 * The tenant that a source belongs to; undefined for the whole fleet (operators only).
 * @throws ToolError PERMISSION_DENIED
 */
export function sourceTenantOf(
  principal: Principal | undefined,
  visibility: 'tenant' | 'fleet' = 'tenant',
): string | undefined {
  if (principal === undefined) return undefined;
  if (visibility === 'tenant') return principal.tenantId;
  requireRight(principal, 'operate_fleet', 'visibility fleet');
  return undefined;
}

/** A literal that cannot be sealed stays in the message: the source refuses it and names the field in its reply. */
function seal(message: OpenApiEntry, sealing: ReturnType<Exclude<SealFor, undefined>> | undefined): OpenApiEntry {
  try {
    return { ...message, ...sealOpenApiSecrets(message, sealing) };
  } catch (error) {
    if (isToolError(error)) return message;
    throw error;
  }
}

function toEntry({ name, tenant, ...fields }: McpEntry): McpEntry {
  const local = LOCAL_FIELDS.find((field) => field in fields);
  const entry = local
    ? [{ path: local, message: 'cannot be set: local servers are declared in the configuration file' }]
    : readMcpEntry(name, fields as unknown as JsonObject, false);
  if (Array.isArray(entry)) throw invalidRequest(`The registration is invalid: ${entry.map(faultLine).join('; ')}`);
  return tenant === undefined ? entry : { ...entry, tenant };
}
