import { OPERATOR_ROLE, ToolError, type Principal } from '@toolfleet/contracts';
import { narrowGlobs, toolAllowed } from '@toolfleet/engine/access';
import type { KeySpec } from './api-keys.js';
import { administers, isOperator } from './roles.js';

/** A request for a new key. Absent fields are taken from the caller. */
export type KeyRequest = Omit<KeySpec, 'tenantId'> & { tenantId?: string | undefined };

/**
 * Checks that a caller grants no more than it holds, and completes the request: administrators create keys of their own tenant
 * and tier, only operators create operators, and no key may call tools or use projects that its creator may not.
 * @throws ToolError PERMISSION_DENIED naming the field
 */
export function toKeySpec(caller: Principal, request: KeyRequest): KeySpec {
  const { tenantId = caller.tenantId, roles = [], tools = [...caller.tools], tier } = request;
  // A key without projects may name any of them over NATS, so a restricted creator passes its own restriction on.
  const isRestricted = caller.projects !== undefined && !caller.projects.includes('*');
  const projects = request.projects ?? (isRestricted ? [...(caller.projects ?? [])] : undefined);
  if (!administers(caller, tenantId)) deny('tenant_id', 'Creating keys of another tenant needs the role operator.');
  if (!isOperator(caller)) {
    if (roles.includes(OPERATOR_ROLE)) deny('roles', 'Only operators can create operators.');
    if (tier !== undefined && tier !== caller.tier) deny('tier', 'A tier other than your own needs the role operator.');
  }
  const covered = new Set(narrowGlobs(caller.tools, tools));
  const beyond = tools.filter((glob) => !covered.has(glob));
  if (beyond.length > 0) deny('tools', `Your key may not call ${beyond.join(', ')}.`);
  const foreign = isRestricted ? projects?.filter((project) => !toolAllowed(caller.projects ?? [], project)) : [];
  if (foreign?.length) deny('projects', `Your key may not use ${foreign.join(', ')}.`);
  const { toolset: bound } = caller;
  if (bound && request.toolset !== undefined && request.toolset !== bound.name)
    deny('toolset', `Your key is bound to toolset ${bound.name}.`);
  const toolset = bound ? bound.name : request.toolset;
  return { ...request, tenantId, roles, tools, projects, toolset, tier: isOperator(caller) ? tier : caller.tier };
}

function deny(field: string, message: string): never {
  throw new ToolError('PERMISSION_DENIED', { message, details: { fields: [field] } });
}
