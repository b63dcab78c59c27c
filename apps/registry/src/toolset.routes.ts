import { EVERY_TENANT, hasRight, requireRight } from '@toolfleet/access/roles';
import { invalidRequest, ToolError, type Principal } from '@toolfleet/contracts';
import { TOOLSET_ROUTES, type Asked, type ShownToolset } from '@toolfleet/contracts/resources';
import { TOOLSET_NAME_PATTERN, type ToolsetDetail } from '@toolfleet/contracts/toolset';
import { Answers } from '@toolfleet/transport';
import { ToolsetService } from './toolset-service.js';

/** Toolsets of an administrator's tenant, for operators of all tenants and shared ones (docs/toolsets.md). */
@Answers(TOOLSET_ROUTES)
export class ToolsetRoutes {
  constructor(private readonly toolsets: ToolsetService) {}

  /** The latest version of each, for administrators also of those that are shared with all tenants. */
  async listToolsets({ principal }: Asked<'listToolsets'>) {
    if (hasRight(principal, 'manage_toolsets', EVERY_TENANT)) return this.toolsets.list(undefined);
    const [own, shared] = await Promise.all([this.toolsets.list(principal.tenantId), this.toolsets.list(null)]);
    return [...own, ...shared];
  }

  getToolset(asked: Asked<'getToolset'>) {
    return this.#shown(asked, this.toolsets.show(toId(asked, 'read'), asked.query.version));
  }

  putToolset(asked: Asked<'putToolset'>) {
    const by = toAuthor(asked.principal);
    return this.#shown(asked, this.toolsets.put({ id: toId(asked, 'write'), spec: asked.body, by }));
  }

  rollbackToolset(asked: Asked<'rollbackToolset'>) {
    const restored = { id: toId(asked, 'write'), restore_version: asked.body.version, by: toAuthor(asked.principal) };
    return this.#shown(asked, this.toolsets.put(restored));
  }

  approveToolsetOverride(asked: Asked<'approveToolsetOverride'>) {
    const { tool, pending_revision: revision } = asked.body;
    const by = toAuthor(asked.principal);
    return this.#shown(asked, this.toolsets.approve(toId(asked, 'write'), tool, revision, by));
  }

  async removeToolset(asked: Asked<'removeToolset'>) {
    const id = toId(asked, 'write');
    await this.toolsets.remove(id);
    return { removed: id };
  }

  /** Adds the names of its tools; of a shared toolset, those that the caller's own tenant sees in it. */
  async #shown({ principal }: { principal: Principal }, found: Promise<ToolsetDetail>): Promise<ShownToolset> {
    const detail = await found;
    return { ...detail, tools: await this.toolsets.toolNames(detail, detail.tenant ?? principal.tenantId) };
  }
}

const toAuthor = ({ tenantId, userId }: Principal): string => `${tenantId}/${userId}`.slice(0, 200);

/**
 * Id of a toolset: `name@tenant`, or `name` of a shared one. An operator may name one of another tenant.
 * @throws ToolError PERMISSION_DENIED; NOT_FOUND for toolsets of other tenants; REQUEST_INVALID
 */
function toId({ principal, path, query }: Omit<Asked<'removeToolset'>, 'body'>, access: 'read' | 'write'): string {
  const [name = '', tenant] = path.name.split('@', 2);
  if (!TOOLSET_NAME_PATTERN.test(name)) {
    throw invalidRequest('The name of a toolset needs 1 to 64 letters, digits, "_" and "-"', 'name');
  }
  if (access === 'write' && principal.toolset?.bound && principal.toolset.name === name) {
    // It decides on the tools of the credential. A tenant's own toolset would also replace a shared one of this name.
    throw new ToolError('PERMISSION_DENIED', { message: `Your key is bound to toolset ${name} and cannot change it` });
  }
  if (query.visibility === 'fleet') {
    if (access === 'write') requireRight(principal, 'operate_fleet', 'visibility fleet');
    return name;
  }
  if (tenant === undefined || tenant === principal.tenantId) return `${name}@${principal.tenantId}`;
  if (!hasRight(principal, 'manage_toolsets', tenant))
    throw new ToolError('NOT_FOUND', { message: `No toolset '${path.name}'` });
  return `${name}@${tenant}`;
}
