import { toMaker, type Principal } from '@toolfleet/contracts';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import {
  hasRequiredRole,
  isAuthenticated,
  mayUse,
  narrowGlobs,
  toolAllowed,
  type MadeCall,
} from '@toolfleet/engine/access';
import { hasRight } from './roles.js';

/** The properties of a call that decide who sees it. */
export interface OwnedCall extends MadeCall {
  /** Name or alias of the tool, as it was called. */
  tool: string;
}

/** The definitions of the tools of a tenant, which decide who could have made a call. */
interface ToolDefinitions {
  list(tenantId: string): Promise<{ tools: readonly RegisteredTool[] }>;
}

/** Whether a caller has access to a call, or to calls of a tool. */
export interface AccessRule {
  call(call: OwnedCall): boolean;
  /** Whether the caller has access to all calls of this tool in its tenant. */
  tool(name: string): boolean;
}

/**
 * Whether a caller may see sums over every tool of its tenant: by the right to all calls, or with globs that allow every tool. A
 * key restricted to some tools or to a toolset must not learn what the others cost.
 */
export function seesTenantTotals(caller: Principal): boolean {
  if (hasRight(caller, 'all_calls')) return true;
  return !caller.toolset && narrowGlobs(caller.tools, ['*']).includes('*');
}

/**
 * Decides which calls a caller sees, for every view of calls and every operation on them (state, events, cancellation, tasks, finished
 * calls, usage): calls it made, calls it could have made by its tool globs and roles, and with the right to all calls those of its
 * tenant, or of every tenant. `contentAccess` decides whose arguments and results it reads. A caller with a toolset sees its own calls
 * only. A delegated caller does not see a call just because the same key made it.
 */
export class CallAccess {
  readonly #byName = new WeakMap<readonly RegisteredTool[], ReadonlyMap<string, RegisteredTool>>();

  constructor(private readonly cache: ToolDefinitions) {}

  /** Whether a caller has access to one call. Definitions are read only if another caller made it. */
  async may(caller: Principal, call: OwnedCall): Promise<boolean> {
    if (isOwnCall(caller, call)) return true;
    return call.tenantId === caller.tenantId && (await this.ruleFor(caller)).call(call);
  }

  /** The rule for many calls at once; it stays valid while definitions do not change. */
  async ruleFor(caller: Principal): Promise<AccessRule> {
    if (hasRight(caller, 'all_calls')) {
      return { call: (call) => hasRight(caller, 'all_calls', call.tenantId), tool: () => true };
    }
    if (caller.toolset) return { tool: () => false, call: (call) => isOwnCall(caller, call) };
    const definitions = await this.#definitions(caller.tenantId);
    const tool = (name: string): boolean => couldCall(caller, name, definitions.get(name));
    return {
      tool,
      call: (call) => isOwnCall(caller, call) || (call.tenantId === caller.tenantId && tool(call.tool)),
    };
  }

  /** Tools by name and alias. Empty if the registry is unavailable and nothing is cached; then globs alone decide. */
  async #definitions(tenantId: string): Promise<ReadonlyMap<string, RegisteredTool>> {
    const listed = await this.cache.list(tenantId).catch(() => undefined);
    if (!listed) return new Map();
    let known = this.#byName.get(listed.tools);
    if (!known) {
      const named = (tool: RegisteredTool): [string, RegisteredTool][] =>
        [...(tool.aliases ?? []), tool.name].map((name) => [name, tool]);
      this.#byName.set(listed.tools, (known = new Map(listed.tools.flatMap(named))));
    }
    return known;
  }
}

/** Whether the caller itself made a call. */
function isMaker(caller: Principal, { tenantId, maker }: OwnedCall): boolean {
  return tenantId === caller.tenantId && caller.via !== 'delegation' && maker === toMaker(caller);
}

/** Whether the caller made a call, or has the right to all calls of the tenant that did. */
function isOwnCall(caller: Principal, call: OwnedCall): boolean {
  return hasRight(caller, 'all_calls', call.tenantId) || isMaker(caller, call);
}

/** The decision of the engine's `authorize`, without what depends on arguments or origin. */
function couldCall(caller: Principal, name: string, tool: RegisteredTool | undefined): boolean {
  if (!tool) return toolAllowed(caller.tools, name);
  if (tool.requires_auth && !isAuthenticated(caller)) return false;
  return mayUse(caller.tools, tool) && hasRequiredRole(caller, tool);
}
