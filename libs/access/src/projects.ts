import { invalidRequest, ToolError, type CallContext, type Origin, type Principal } from '@toolfleet/contracts';
import { isPlainId } from '@toolfleet/contracts/text';
import { CALL_FIELDS } from '@toolfleet/contracts/call-fields';
import { toolAllowed } from '@toolfleet/engine/access';

/** Header in which HTTP and MCP callers name a project. */
export const PROJECT_HEADER = 'x-project-id';
const MAX_LENGTH = CALL_FIELDS.project_id.schema.maxLength;

/** The project of a call, as part of its context. Empty when the call has none. */
export type ProjectContext = Pick<CallContext, 'project_id' | 'create_project'>;

/** A project that a caller names, and whether it asks for its creation (internal callers only). */
interface NamedProject {
  id: string | undefined;
  create?: boolean;
}

/**
 * Decides which project a call works on: the one that the caller names, else the first of its credential, else the default of its
 * tenant.
 *
 * Public callers can name the projects of their credential and their tenant's default project. Internal callers can name any
 * project of their tenant unless their credential lists projects. A call that a tool makes stays in the project of the call that
 * the tool runs for.
 */
export class Projects {
  /** @param defaults default project by tenant; `*` for all other tenants */
  constructor(private readonly defaults: ReadonlyMap<string, string> = new Map()) {}

  /**
   * The project of a call. `create_project` is true for projects that exist by declaration (in the credential or as a default) and
   * for those an internal caller wants to create; all others need a workspace.
   * @throws ToolError PERMISSION_DENIED when the caller may not use the named project; REQUEST_INVALID when its id is invalid
   */
  choose(principal: Principal, origin: Origin, named: NamedProject): ProjectContext {
    const { parentProject, tenantId } = principal;
    const granted = principal.projects ?? [];
    const isDelegated = principal.via === 'delegation';
    const tenantDefault = isDelegated ? undefined : (this.defaults.get(tenantId) ?? this.defaults.get('*'));
    const ownId = isDelegated ? parentProject?.id : (granted.find((glob) => !glob.includes('*')) ?? tenantDefault);
    const { id = ownId } = named;
    if (id === undefined) return {};
    if (!isPlainId(id) || id.length > MAX_LENGTH) throw invalidRequest('A project id must have 1 to 255 characters');
    const mayNameAny = origin === 'internal' && !isDelegated && principal.projects === undefined;
    if (id !== ownId && id !== tenantDefault && !mayNameAny && !toolAllowed(granted, id)) {
      throw new ToolError('PERMISSION_DENIED', {
        message: `This credential may not use project '${id}'`,
        details: { project_id: id },
      });
    }
    const isDeclared = isDelegated
      ? id === parentProject?.id && parentProject.create
      : granted.includes(id) || id === tenantDefault;
    return { project_id: id, create_project: isDeclared || named.create === true };
  }
}
