import { ToolError, type JsonObject, type RegisteredTool } from '@toolfleet/contracts';
import type { SeenCall } from './call.js';
import type { PolicyPort, PolicyVerdict } from './ports.js';

/**
 * Asks the policy about a call with its coerced arguments. An adapter that fails is a denial: never open by accident.
 * @throws ToolError POLICY_DENIED with the messages of the rules
 */
export function decidePolicy(
  policy: PolicyPort,
  call: SeenCall,
  tool: RegisteredTool,
  args: JsonObject,
): void | Promise<void> {
  let verdict: PolicyVerdict | Promise<PolicyVerdict>;
  try {
    verdict = policy.decide({ call, tool, arguments: args });
  } catch (error) {
    throw notDecided(tool, error);
  }
  if (!(verdict instanceof Promise)) return enforce(verdict, tool);
  return verdict.then(
    (decided) => enforce(decided, tool),
    (error: unknown) => {
      throw notDecided(tool, error);
    },
  );
}

function enforce(verdict: PolicyVerdict, tool: RegisteredTool): void {
  if (verdict.allowed) return;
  throw new ToolError('POLICY_DENIED', {
    message: verdict.reasons.join('; ') || `A policy denies '${tool.name}'`,
    details: { reasons: verdict.reasons },
  });
}

function notDecided(tool: RegisteredTool, cause: unknown): ToolError {
  return new ToolError('POLICY_DENIED', { message: `The policy could not be evaluated for '${tool.name}'`, cause });
}
