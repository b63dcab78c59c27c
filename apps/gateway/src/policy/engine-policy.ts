import { PolicyPort, type PolicyRequest, type PolicyResult } from '@toolfleet/engine';
import type { PolicyDecision, PolicyEngine, PolicyInput } from '@toolfleet/policy';

/** Told of every denial. */
export type DenialHook = (question: PolicyRequest, reasons: readonly string[]) => void;

/** The engine's port over a policy engine: builds the input that rules see (docs/policy.md). */
export class EnginePolicy extends PolicyPort {
  constructor(
    private readonly engine: PolicyEngine,
    private readonly onDenied: DenialHook = () => undefined,
  ) {
    super();
  }

  override decide(question: PolicyRequest): PolicyResult | Promise<PolicyResult> {
    const decision = this.engine.decide(policyInput(question));
    if (!(decision instanceof Promise)) return this.verdict(question, decision);
    return decision.then((decided) => this.verdict(question, decided));
  }

  private verdict(question: PolicyRequest, { deny, ask }: PolicyDecision): PolicyResult {
    if (deny.length === 0) return ask ? { allowed: true, ask } : { allowed: true };
    this.onDenied(question, deny);
    return { allowed: false, reasons: deny };
  }
}

/** What rules may look at. The tenant and roles are those of the credential, the name is the tool's own, never an alias. */
export function policyInput({ call, tool, arguments: args }: PolicyRequest): PolicyInput {
  const { principal, origin, door, context, dryRun } = call.request;
  return {
    tool: tool.name,
    user: { id: principal.userId, tenant: principal.tenantId, roles: principal.roles, via: principal.via },
    arguments: args,
    origin,
    door,
    ...(typeof context.session_id === 'string' ? { session_id: context.session_id } : {}),
    category: tool.category,
    tags: tool.tags ?? [],
    dangerous: tool.dangerous ?? false,
    dry_run: dryRun ?? false,
  };
}
