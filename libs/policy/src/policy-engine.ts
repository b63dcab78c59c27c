import type { ApprovalRule, JsonObject } from '@toolfleet/contracts';

/** The `input` document of policy rules. `arguments` are coerced. docs/policy.md describes the fields. */
export interface PolicyInput {
  tool: string;
  /** The method of MCP of the call. Calls of tools of every kind are `tools/call`. */
  action?: string;
  user: { id: string; tenant: string; roles: readonly string[]; via: string };
  arguments: JsonObject;
  origin: 'public' | 'internal';
  entry_point: string;
  session_id?: string;
  /** `parent`: the call in which the tool or program runs that makes this call. `toolset`: name of the toolset of the caller. */
  call?: { parent?: string; toolset?: string };
  category?: string;
  tags?: readonly string[];
  dangerous?: boolean;
  dry_run?: boolean;
}

/** The decision on a call: denied, allowed, or allowed if a user agrees. */
export interface PolicyDecision {
  /** Messages of all rules that deny; empty = allowed. */
  deny: string[];
  /** Questions of all rules that require the approval of a person; only if none denies. */
  ask?: string[];
  /** Who may answer them, and how; absent where every rule is a plain question. */
  approval?: ApprovalRule;
  /** Where the rules are that deny or ask (`tools.rego:8`), up to ten; absent where none does, or the engine does not tell. */
  rules?: readonly string[];
}

/** A fact of `PolicyInput` that is not known. Getters of an input may throw it for `RegoPolicy.judge`. */
export class UnknownFact extends Error {
  override readonly name = 'UnknownFact';

  /** @param fact path in the input, such as `user.roles` */
  constructor(readonly fact: string) {
    super(`${fact} is not known`);
  }
}

/** Decides whether a call may run. Errors in rules, in their evaluation or of a sidecar are denials with a reason. */
export abstract class PolicyEngine {
  abstract decide(input: PolicyInput): PolicyDecision | Promise<PolicyDecision>;
}
