import { OPERATOR_ROLE, type Principal, ToolError } from '@toolfleet/contracts';
import { narrowGlobs } from '@toolfleet/engine';
import type { KeySpec } from './api-keys.js';
import { administers, isOperator } from './roles.js';

/** A new key as asked for: what is absent comes from the one who asks. */
export type KeyRequest = Omit<KeySpec, 'tenantId'> & { tenantId?: string | undefined };

/**
 * The key a caller may make. Nobody gives away more than they hold: an administrator makes keys of its own tenant and its own
 * rate class, nobody but an operator makes operators, and no key may call tools that its maker's may not.
 * @throws ToolError PERMISSION_DENIED naming the field
 */
export function grantOf(caller: Principal, request: KeyRequest): KeySpec {
  const { tenantId = caller.tenantId, roles = [], tools = [...caller.tools], tier } = request;
  if (!administers(caller, tenantId)) deny('tenant_id', 'Keys of another tenant need the role operator.');
  if (!isOperator(caller)) {
    if (roles.includes(OPERATOR_ROLE)) deny('roles', 'Operators are made by operators.');
    if (tier !== undefined && tier !== caller.tier)
      deny('tier', 'Another rate class than your own needs the role operator.');
  }
  const covered = new Set(narrowGlobs(caller.tools, tools));
  const beyond = tools.filter((glob) => !covered.has(glob));
  if (beyond.length > 0) deny('tools', `Your key may not call ${beyond.join(', ')}.`);
  return { ...request, tenantId, roles, tools, tier: isOperator(caller) ? tier : caller.tier };
}

function deny(field: string, message: string): never {
  throw new ToolError('PERMISSION_DENIED', { message, details: { fields: [field] } });
}
