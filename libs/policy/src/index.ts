export { PolicyEngine, type PolicyDecision, type PolicyInput } from './policy-engine.js';
export { RegoPolicy } from './rego-policy.js';
export { readPolicyFolder, ReloadingPolicy } from './reloading-policy.js';
export { OPA_PATHS, opaDecision, opaRequestBody, type OpaResponse } from './opa-decision.js';
