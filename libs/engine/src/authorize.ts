import { ToolError, type JsonObject, type Origin, type Principal } from '@toolfleet/contracts';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { toolAllowed } from './tool-globs.js';

/** Published message of a refused dangerous tool: clients match it. */
export const DANGEROUS_MESSAGE = 'Tool not available via direct execution';

/**
 * What a caller may do at all, from declared flags only; rules about arguments are the policy's.
 * @throws ToolError TOOL_QUARANTINED, TOOL_DANGEROUS, PERMISSION_DENIED
 */
export function authorize(principal: Principal, origin: Origin, tool: RegisteredTool): void {
  if (tool.quarantine) {
    throw new ToolError('TOOL_QUARANTINED', {
      message: `Tool '${tool.name}' awaits approval: ${tool.quarantine.reason}`,
    });
  }
  if (tool.dangerous && origin === 'public') throw new ToolError('TOOL_DANGEROUS', { message: DANGEROUS_MESSAGE });
  if (principal.via === 'delegation' && callsTools(tool)) {
    // One that starts others could do so without end. Here, so that it holds for every tool that calls tools.
    deny(`'${tool.name}' may not be started on behalf of a tool`);
  }
  if (!mayUse(principal.tools, tool)) deny(`This credential may not call '${tool.name}'`);
  if (!hasRequiredRole(principal, tool)) {
    deny(`Tool '${tool.name}' requires role ${tool.required_roles?.join(' or ')}`);
  }
  if (tool.requires_auth && principal.userId === '') deny(`Tool '${tool.name}' requires an authenticated user`);
}

/**
 * Argument values that make one call dangerous although the tool is not; decided after coercion.
 * @throws ToolError TOOL_DANGEROUS
 */
export function authorizeArguments(origin: Origin, tool: RegisteredTool, args: JsonObject): void {
  if (origin !== 'public' || !tool.dangerous_when) return;
  for (const { argument, values } of tool.dangerous_when) {
    const value = args[argument];
    if (value !== undefined && values.includes(value)) {
      throw new ToolError('TOOL_DANGEROUS', { message: DANGEROUS_MESSAGE, details: { argument } });
    }
  }
}

/** True for tools that act for their caller with a delegation token: those of toolset `agent`. */
export function callsTools({ binding }: Pick<RegisteredTool, 'binding'>): boolean {
  return binding.kind === 'builtin' && binding.toolset === 'agent';
}

/** True when a glob of the credential names the tool or one of its aliases. */
export function mayUse(globs: readonly string[], tool: Pick<RegisteredTool, 'name' | 'aliases'>): boolean {
  return toolAllowed(globs, tool.name) || (tool.aliases?.some((alias) => toolAllowed(globs, alias)) ?? false);
}

/** True when the tool requires no role, or the principal has one of those it requires. */
export function hasRequiredRole(
  { roles }: Pick<Principal, 'roles'>,
  { required_roles: required }: Pick<RegisteredTool, 'required_roles'>,
): boolean {
  return !required?.length || required.some((role) => roles.includes(role));
}

function deny(message: string): never {
  throw new ToolError('PERMISSION_DENIED', { message });
}
