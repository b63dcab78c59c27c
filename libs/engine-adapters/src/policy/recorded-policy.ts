import { ToolError, type JsonObject } from '@toolfleet/contracts';
import { mcpMethod, type RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { RegoPolicy, UnknownFact, type PolicyDecision, type PolicyFile, type PolicyInput } from '@toolfleet/policy';
import type { Clock } from '@toolfleet/resilience';

/** What is known of a call of the past. Absent members are not known. */
export interface PastCall {
  tool: string;
  tenantId: string;
  /** Absent for a call on behalf of another user. */
  userId?: string | undefined;
  via?: string | undefined;
  roles?: readonly string[] | undefined;
  origin: string;
  door: string;
  /** Name of the toolset of its caller; null: none. */
  toolset: string | null;
  /** Whether another call made it; with the id of that call if it is known. */
  parent: { id?: string | undefined } | undefined;
  /** Today's definition of its tool. */
  definition?: RegisteredTool | undefined;
  /** As the tool got them. */
  arguments?: JsonObject | undefined;
  startedAt?: number | undefined;
}

/** A policy that is tested with calls of the past. */
export class RecordedPolicy {
  readonly #policy: RegoPolicy;

  /** @throws ToolError REQUEST_INVALID with file, line and column */
  constructor(files: readonly PolicyFile[], clock: Clock) {
    try {
      this.#policy = new RegoPolicy(files, clock);
    } catch (error) {
      const message = `The policy cannot be loaded: ${(error as Error).message}`;
      throw new ToolError('REQUEST_INVALID', { message, details: { fields: ['policy'] } });
    }
  }

  /** @throws UnknownFact when the decision depends on something that is not known */
  judge(call: PastCall): PolicyDecision {
    return this.#policy.judge(pastInput(call), () => known('time', call.startedAt));
  }
}

export { UnknownFact };

/** The input of the rules, as `policyInput` builds it for a running call. Members that are not known throw when a rule reads them. */
function pastInput(call: PastCall): PolicyInput {
  const { tool, tenantId, origin, door, toolset, parent, definition } = call;
  return {
    tool,
    get action() {
      const { binding } = known('definition of the tool', definition);
      // Only a call of a prompt or of resources tells its method by an argument.
      const isTool = binding.kind !== 'mcp' || binding.method === undefined;
      return mcpMethod(binding, isTool ? {} : known('arguments', call.arguments));
    },
    user: {
      get id() {
        return known('user.id', call.userId);
      },
      tenant: tenantId,
      get roles() {
        return known('user.roles', call.roles);
      },
      get via() {
        return known('user.via', call.via);
      },
    },
    get arguments() {
      return known('arguments', call.arguments);
    },
    origin: origin as PolicyInput['origin'],
    door,
    get session_id(): string {
      throw new UnknownFact('session_id');
    },
    ...((parent !== undefined || toolset !== null) && { call: pastOrigin(parent, toolset) }),
    get category() {
      return known('definition of the tool', definition).category;
    },
    get tags() {
      return known('definition of the tool', definition).tags ?? [];
    },
    get dangerous() {
      return known('definition of the tool', definition).dangerous ?? false;
    },
    dry_run: false,
  };
}

function pastOrigin(parent: PastCall['parent'], toolset: string | null): NonNullable<PolicyInput['call']> {
  const call: NonNullable<PolicyInput['call']> = {};
  if (toolset !== null) call.toolset = toolset;
  if (parent) Object.defineProperty(call, 'parent', { enumerable: true, get: () => known('call.parent', parent.id) });
  return call;
}

function known<T>(fact: string, value: T | undefined): T {
  if (value === undefined) throw new UnknownFact(fact);
  return value;
}
