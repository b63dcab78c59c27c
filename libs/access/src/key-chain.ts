import type { Principal } from '@toolfleet/contracts';
import { narrowGlobs, toolAllowed } from '@toolfleet/engine/access';
import { coversRole, hasRight } from './roles.js';

/**
 * A key with the rights that its maker's key has now as well. An operator's key passes on rights that it does not hold. The tier is not a right:
 * operators set it.
 * @param maker the key with which it was made, as it counts itself
 */
export function narrowedBy(maker: Principal, key: Principal): Principal {
  if (hasRight(maker, 'operate_fleet')) return key;
  const { projects: held } = maker;
  return {
    ...key,
    roles: key.roles.filter((role) => maker.roles.includes(role) || coversRole(maker, role)),
    tools: narrowGlobs(maker.tools, key.tools),
    projects: held?.includes('*')
      ? key.projects
      : held && key.projects?.filter((project) => toolAllowed(held, project)),
    toolset: maker.toolset ?? key.toolset,
  };
}
