import { toMaker, ToolError, type EpochMs, type Principal } from '@toolfleet/contracts';
import type { StoredCall } from '@toolfleet/contracts/records';
import type { ResultOmitted } from '@toolfleet/contracts/resources';
import { sharesResults, type RegisteredTool } from '@toolfleet/contracts/tool-definition';
import {
  hasRequiredRole,
  isAuthenticated,
  mayUse,
  ownsCall,
  toolAllowed,
  type MadeCall,
} from '@toolfleet/engine/access';
import { hasRight } from './roles.js';

/**
 * The sight of a caller on a call. `own`: everything, and it cancels the call and answers its questions. `shared`: state and content, because
 * its source shares results. `recorded`: the same, each reading of content is recorded. `state`: existence, end and cost,
 * without arguments, result, progress and questions. `none`: as if there were no such call. With `recorded` and `state` it cancels the call.
 */
export type Sight = 'own' | 'shared' | 'recorded' | 'state' | 'none';

/** The properties of a call that decide who sees it. */
export interface SeenCall extends MadeCall {
  /** Name or alias of the tool, as it was called. */
  tool: string;
  acceptedAt: EpochMs;
}

/** The rule for one caller. */
export interface SightRule {
  of(call: SeenCall): Sight;
  /** It sees its own calls (`ownCalls`) and no others. */
  isOwnOnly: boolean;
}

/** The definitions of the tools of a tenant. */
interface ToolDefinitions {
  list(tenantId: string): Promise<{ tools: readonly RegisteredTool[] }>;
}

/**
 * The one rule of sight: every route, list, MCP method and message about calls asks it. A call belongs to the key that made it and to the
 * user that it acts for (`ownsCall`). docs/security.md has the rule as a table that a test compares with every entry point.
 */
export class CallSight {
  readonly #byName = new WeakMap<readonly RegisteredTool[], ReadonlyMap<string, RegisteredTool>>();

  constructor(private readonly definitions: ToolDefinitions) {}

  async of(caller: Principal, call: SeenCall): Promise<Sight> {
    return sightOf(caller, call, (await this.#tools(caller.tenantId)).get(call.tool));
  }

  /** The rule for many calls at once; it stays valid while definitions do not change. */
  async rule(caller: Principal): Promise<SightRule> {
    const tools = await this.#tools(caller.tenantId);
    const isOwnOnly =
      !hasRight(caller, 'all_calls') && tools.values().every((tool) => !isSharing(tool) || !couldCall(caller, tool));
    return { of: (call) => sightOf(caller, call, tools.get(call.tool)), isOwnOnly };
  }

  /** Tools by name and alias. Empty if the registry is unavailable and nothing is cached; then nothing is shared. */
  async #tools(tenantId: string): Promise<ReadonlyMap<string, RegisteredTool>> {
    const listed = await this.definitions.list(tenantId).catch(() => undefined);
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

function sightOf(caller: Principal, call: SeenCall, tool: RegisteredTool | undefined): Sight {
  // A tool that calls tools reads results of its caller's calls, of the tools that it may call. It has no rights.
  if (ownsCall(caller, call) && (caller.via !== 'delegation' || couldCall(caller, tool, call.tool))) return 'own';
  if (isShared(caller, call, tool)) return 'shared';
  if (!hasRight(caller, 'all_calls', call.tenantId)) return 'none';
  return hasRight(caller, 'read_bodies', call.tenantId) ? 'recorded' : 'state';
}

/** A call is shared if its source shared results when it was accepted and still does. */
function isShared(caller: Principal, call: SeenCall, tool: RegisteredTool | undefined): boolean {
  if (!tool || !isSharing(tool) || call.acceptedAt < tool.shared_since) return false;
  return call.tenantId === caller.tenantId && couldCall(caller, tool);
}

const isSharing = (tool: RegisteredTool): tool is RegisteredTool & { shared_since: EpochMs } =>
  tool.shared_since !== undefined && sharesResults(tool);

/** The decision of the engine's `authorize`, without what depends on arguments or origin. Through a toolset nothing counts as callable. */
function couldCall(caller: Principal, tool: RegisteredTool | undefined, name = ''): boolean {
  if (caller.toolset) return false;
  if (!tool) return toolAllowed(caller.tools, name);
  if (tool.requires_auth && !isAuthenticated(caller)) return false;
  return mayUse(caller.tools, tool) && hasRequiredRole(caller, tool);
}

/** A finished call as the rule reads it. */
export const toSeenCall = ({ tenant_id, tool, key_id, user_id, ended_at, duration_ms }: StoredCall): SeenCall => ({
  tenantId: tenant_id,
  tool,
  userId: user_id,
  maker: toMaker({ keyId: key_id, userId: user_id }),
  acceptedAt: ended_at - duration_ms,
});

const FOR_WHOM =
  'Arguments and results are for the key or user that made the call, and for the right read_bodies, for example by the role auditor.';

/** The refusal of the content of a call. */
export const contentRefusal = (): ToolError =>
  new ToolError('PERMISSION_DENIED', { message: FOR_WHOM, details: { role: 'auditor', right: 'read_bodies' } });

/** Says in place of the content of a call why it is not there: for whom it is, or that reading it would be recorded. */
export const resultOmitted = (sight: Sight): ResultOmitted =>
  sight === 'recorded'
    ? {
        reason: 'recorded',
        message: 'Another key or user made the call. You may read its result; the reading is recorded.',
      }
    : { reason: 'permission', message: FOR_WHOM };
