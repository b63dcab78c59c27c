import { EVERY_TENANT, hasRight } from '@toolfleet/access/roles';
import { isToolError, ToolError, type Principal } from '@toolfleet/contracts';
import { QUARANTINE_ROUTES, type Asked } from '@toolfleet/contracts/resources';
import { Answers } from '@toolfleet/transport';
import { QuarantineService } from './quarantine.js';

/** Remote tools that changed after their approval, of an administrator's tenant, for operators of all tenants and the fleet. */
@Answers(QUARANTINE_ROUTES)
export class QuarantineRoutes {
  constructor(private readonly quarantine: QuarantineService) {}

  async listQuarantine({ principal }: Asked<'listQuarantine'>) {
    const tools = await this.quarantine.list();
    return decidesEverywhere(principal) ? tools : tools.filter(({ name }) => name.startsWith(`${principal.tenantId}/`));
  }

  /** Approves exactly the revision that was shown. */
  approveTool({ principal, path, body }: Asked<'approveTool'>) {
    return decide(principal, path.name, async (name, by) => {
      const revision = await this.quarantine.approve(name, body.pending_revision, by);
      return { name, revision };
    });
  }

  /** The tool stays quarantined until its server serves another revision, or it is approved. */
  rejectTool({ principal, path, body }: Asked<'rejectTool'>) {
    return decide(principal, path.name, async (name, by) => {
      await this.quarantine.reject(name, body.pending_revision, by);
      return { name };
    });
  }
}

const decidesEverywhere = (principal: Principal): boolean => hasRight(principal, 'approve_tools', EVERY_TENANT);

/**
 * Resolves the name: `<tenant>/<name>`, as listed, is that tool; a plain name is a tool of the caller's tenant, for operators a
 * tool of the fleet first.
 * @throws ToolError NOT_FOUND
 */
async function decide<T>(
  principal: Principal,
  name: string,
  work: (key: string, by: string) => Promise<T>,
): Promise<T> {
  const by = `${principal.tenantId}/${principal.userId}`;
  const own = `${principal.tenantId}/`;
  if (decidesEverywhere(principal))
    return work(name, by).catch((error: unknown) => {
      if (name.includes('/') || !isToolError(error) || error.code !== 'NOT_FOUND') throw error;
      return work(own + name, by);
    });
  if (name.includes('/') && !name.startsWith(own))
    throw new ToolError('NOT_FOUND', {
      message: `No tool '${name}' awaits approval in tenant ${principal.tenantId}`,
    });
  return work(name.startsWith(own) ? name : own + name, by);
}
