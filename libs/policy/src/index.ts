export { PolicyEngine, UnknownFact, type PolicyDecision, type PolicyInput } from './policy-engine.js';
export { RegoPolicy, type PolicyFile } from './rego-policy.js';
export { readPolicyFolder, ReloadingPolicy } from './reloading-policy.js';
export { OPA_PATHS, opaDecision, opaRequestBody, type OpaResponse } from './opa-decision.js';
