import { ToolError, type JsonObject } from '@toolfleet/contracts';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import type { CallTrace } from './call.js';
import type { PolicyPort, PolicyResult } from './ports.js';

/**
 * Asks the policy about a call with its coerced arguments. An adapter that fails is a denial: never open by accident.
 * @throws ToolError POLICY_DENIED with the messages of the rules; APPROVAL_REQUIRED with what nobody has agreed to yet
 */
export function decidePolicy(
  policy: PolicyPort,
  call: CallTrace,
  tool: RegisteredTool,
  args: JsonObject,
): void | Promise<void> {
  let verdict: PolicyResult | Promise<PolicyResult>;
  try {
    verdict = policy.decide({ call, tool, arguments: args });
  } catch (error) {
    throw notDecided(tool, error);
  }
  if (!(verdict instanceof Promise)) return enforce(verdict, call, tool);
  return verdict.then(
    (decided) => enforce(decided, call, tool),
    (error: unknown) => {
      throw notDecided(tool, error);
    },
  );
}

function enforce(verdict: PolicyResult, { request }: CallTrace, tool: RegisteredTool): void {
  if (verdict.allowed) {
    const { approved } = request;
    // A definition that changed since may do something else than what the person agreed to.
    const agreed = approved?.revision === tool.revision ? approved.questions : [];
    const open = verdict.ask?.filter((question) => !agreed.includes(question)) ?? [];
    if (open.length === 0) return;
    throw new ToolError('APPROVAL_REQUIRED', {
      message: `A person has to agree first: ${open.join('; ')}`,
      details: { questions: open, revision: tool.revision },
    });
  }
  throw new ToolError('POLICY_DENIED', {
    message: verdict.reasons.join('; ') || `A policy denies '${tool.name}'`,
    details: { reasons: verdict.reasons },
  });
}

function notDecided(tool: RegisteredTool, cause: unknown): ToolError {
  return new ToolError('POLICY_DENIED', { message: `The policy could not be evaluated for '${tool.name}'`, cause });
}
