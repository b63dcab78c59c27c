import { Controller } from '@nestjs/common';
import { ToolError, type Principal } from '@toolfleet/contracts';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import { TOOLSET_NAME_PATTERN, type ToolsetDetail, type ToolsetSpec } from '@toolfleet/contracts/toolset';
import { NatsClient } from '@toolfleet/transport';
import type { RouteInput, ShownToolset } from '@toolfleet/contracts/resources';
import { Caller } from '../server/guards.js';
import { EVERY_TENANT, hasRight, requireRight } from '@toolfleet/access';
import { ToolList } from '@toolfleet/catalog';
import { bodyObject } from '../server/request-body.js';
import { Input, Serves } from '../server/routes.js';
import { askService } from './ask-service.js';

/** Toolsets of an administrator's tenant, for operators of all tenants and shared ones (docs/toolsets.md). */
@Controller()
export class ToolsetsController {
  constructor(
    private readonly nats: NatsClient,
    private readonly tools: ToolList,
  ) {}

  /** The latest version of each, for administrators also of those that are shared with all tenants. */
  @Serves('GET /api/v1/toolsets')
  async list(@Caller() caller: Principal) {
    const ask = (tenant?: string | null) => askService(this.nats, SUBJECTS.toolsetList, { tenant });
    if (hasRight(caller, 'manage_toolsets', EVERY_TENANT)) return (await ask()).toolsets;
    const [own, shared] = await Promise.all([ask(caller.tenantId), ask(null)]);
    return [...own.toolsets, ...shared.toolsets];
  }

  /** One version with its spec, the history, and the tools that callers of the tenant see in it. */
  @Serves('GET /api/v1/toolsets/{name}')
  async show(@Caller() caller: Principal, @Input() { path, query }: RouteInput<'GET /api/v1/toolsets/{name}'>) {
    const id = toId(caller, path.name, query.visibility, 'read');
    return this.withTools(caller, await askService(this.nats, SUBJECTS.toolsetShow, { id, version: query.version }));
  }

  /** Makes a new version of a toolset that need not exist. */
  @Serves('PUT /api/v1/toolsets/{name}')
  async put(@Caller() caller: Principal, @Input() { path, query, body }: RouteInput<'PUT /api/v1/toolsets/{name}'>) {
    const spec: ToolsetSpec = bodyObject(body);
    const id = toId(caller, path.name, query.visibility, 'write');
    return this.withTools(caller, await askService(this.nats, SUBJECTS.toolsetPut, { id, spec, by: toAuthor(caller) }));
  }

  /** Makes a new version with the content of an older one. */
  @Serves('POST /api/v1/toolsets/{name}/rollback')
  async rollback(
    @Caller() caller: Principal,
    @Input() { path, query, body }: RouteInput<'POST /api/v1/toolsets/{name}/rollback'>,
  ) {
    const id = toId(caller, path.name, query.visibility, 'write');
    const restored = { id, restore_version: body.version, by: toAuthor(caller) };
    return this.withTools(caller, await askService(this.nats, SUBJECTS.toolsetPut, restored));
  }

  /** Approves an override of a changed tool, for exactly the revision that was shown. */
  @Serves('POST /api/v1/toolsets/{name}/approve')
  async approve(
    @Caller() caller: Principal,
    @Input() { path, query, body }: RouteInput<'POST /api/v1/toolsets/{name}/approve'>,
  ) {
    const id = toId(caller, path.name, query.visibility, 'write');
    return this.withTools(
      caller,
      await askService(this.nats, SUBJECTS.toolsetApprove, { id, ...body, by: toAuthor(caller) }),
    );
  }

  @Serves('DELETE /api/v1/toolsets/{name}')
  remove(@Caller() caller: Principal, @Input() { path, query }: RouteInput<'DELETE /api/v1/toolsets/{name}'>) {
    const id = toId(caller, path.name, query.visibility, 'write');
    return askService(this.nats, SUBJECTS.toolsetRemove, { id });
  }

  /** Adds the tools; for a shared toolset, those that the caller's own tenant sees in it. */
  private async withTools(caller: Principal, detail: ToolsetDetail): Promise<ShownToolset> {
    const tenantId = detail.tenant ?? caller.tenantId;
    const toolset = { name: detail.name, version: detail.version };
    // A tenant's own toolset takes precedence over a shared one of the same name and hides its tools here.
    const { tools } = await this.tools
      .all({ tenantId, userId: caller.userId, roles: [], tools: ['*'], via: caller.via, toolset })
      .catch(() => ({ tools: undefined }));
    return { ...detail, tools: tools?.map(({ name }) => name) ?? null };
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
    // It decides on the tools of the credential. A tenant's own toolset would also replace a shared one of this name.
    throw new ToolError('PERMISSION_DENIED', { message: `Your key is bound to toolset ${name} and cannot change it` });
  }
  if (visibility === 'fleet') {
    if (access === 'write') requireRight(caller, 'operate_fleet', 'visibility fleet');
    return name;
  }
  if (tenant === undefined || tenant === caller.tenantId) return `${name}@${caller.tenantId}`;
  if (!hasRight(caller, 'manage_toolsets', tenant))
    throw new ToolError('NOT_FOUND', { message: `No toolset '${given}'` });
  return `${name}@${tenant}`;
}
