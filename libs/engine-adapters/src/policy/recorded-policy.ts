import { ToolError, type JsonObject } from '@toolfleet/contracts';
import { mcpMethod, type RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { RegoPolicy, UnknownFact, type PolicyDecision, type PolicyFile, type PolicyInput } from '@toolfleet/policy';
import type { Clock } from '@toolfleet/resilience';

/** Known facts of a past call, by names that `UnknownFact` has. Absent members are not known. */
export interface PastCall {
  tool: string;
  'user.tenant'?: string | undefined;
  'user.id'?: string | undefined;
  'user.via'?: string | undefined;
  'user.roles'?: readonly string[] | undefined;
  origin?: string | undefined;
  entry_point?: string | undefined;
  /** Name of the toolset of its caller, and whether another call made it. */
  call?: { toolset: string | undefined; hasParent: boolean } | undefined;
  'call.parent'?: string | undefined;
  /** Today's definition of its tool. */
  definition?: RegisteredTool | undefined;
  /** As the tool got them. */
  arguments?: JsonObject | undefined;
  /** When it began. */
  time?: number | undefined;
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

  /** @throws UnknownFact when the decision depends on something that is not known; its fact is the name of a member of `PastCall` */
  judge(call: PastCall): PolicyDecision {
    return this.#policy.judge(pastInput(call), () => known(call, 'time'));
  }
}

export { UnknownFact };

/** The input of the rules, as `policyInput` builds it for a running call. Members that are not known throw when a rule reads them. */
function pastInput(call: PastCall): PolicyInput {
  return {
    tool: call.tool,
    get action() {
      const { binding } = known(call, 'definition');
      // Only a call of a prompt or of resources tells its method by an argument.
      const isTool = binding.kind !== 'mcp' || binding.method === undefined;
      return mcpMethod(binding, isTool ? {} : known(call, 'arguments'));
    },
    user: {
      get id() {
        return known(call, 'user.id');
      },
      get tenant() {
        return known(call, 'user.tenant');
      },
      get roles() {
        return known(call, 'user.roles');
      },
      get via() {
        return known(call, 'user.via');
      },
    },
    get arguments() {
      return known(call, 'arguments');
    },
    get origin() {
      return known(call, 'origin') as PolicyInput['origin'];
    },
    get entry_point() {
      return known(call, 'entry_point');
    },
    get session_id(): string {
      throw new UnknownFact('session_id');
    },
    // Rules see a member that is undefined as absent.
    get call() {
      return pastOrigin(call) as NonNullable<PolicyInput['call']>;
    },
    get category() {
      return known(call, 'definition').category;
    },
    get tags() {
      return known(call, 'definition').tags ?? [];
    },
    get dangerous() {
      return known(call, 'definition').dangerous ?? false;
    },
    dry_run: false,
  };
}

function pastOrigin(call: PastCall): PolicyInput['call'] {
  const { toolset, hasParent } = known(call, 'call');
  if (toolset === undefined && !hasParent) return undefined;
  const origin: NonNullable<PolicyInput['call']> = {};
  if (toolset !== undefined) origin.toolset = toolset;
  if (hasParent) Object.defineProperty(origin, 'parent', { enumerable: true, get: () => known(call, 'call.parent') });
  return origin;
}

function known<K extends keyof PastCall>(call: PastCall, fact: K): NonNullable<PastCall[K]> {
  const value = call[fact];
  if (value === undefined || value === null) throw new UnknownFact(fact);
  return value;
}
