export { PolicyEngine, type PolicyDecision, type PolicyInput } from './policy-engine.js';
export { RegoPolicy, type PolicyFile } from './rego-policy.js';
export { ReloadingPolicy, type PolicyEvents, type ReloadingPolicySettings } from './reloading-policy.js';
export { readPolicyFolder } from './policy-folder.js';
export { OPA_PATHS, opaDecision, opaQuestion, type OpaAnswer } from './opa-decision.js';
