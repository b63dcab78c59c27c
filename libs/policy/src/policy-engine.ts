import type { JsonObject } from '@toolfleet/contracts';

/** What a decision is made on. Rules see the coerced arguments. */
export interface PolicyInput {
  tool: string;
  user: { id: string; tenant: string; roles: readonly string[]; via: string };
  arguments: JsonObject;
  origin: 'public' | 'internal';
  door: string;
  session_id?: string;
  category?: string;
  tags?: readonly string[];
  dangerous?: boolean;
  dry_run?: boolean;
}

/** What the rules say to a call. */
export interface PolicyDecision {
  /** Messages of every rule that denies; empty means allowed. */
  deny: string[];
  /** Questions of every rule that wants a person to agree first; only where nothing denies. */
  ask?: string[];
}

/** Decides whether a call may run. Faults of rules, of their evaluation or of a sidecar are denials with a reason. */
export abstract class PolicyEngine {
  abstract decide(input: PolicyInput): PolicyDecision | Promise<PolicyDecision>;
}
