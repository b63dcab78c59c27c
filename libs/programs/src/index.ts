export type { ProgramPorts } from './program-calls.js';
export { MAX_STUBS, toolExpression, toolStubs } from './tool-signature.js';
export { ProgramExecutor } from './program-executor.js';
export { toolModels } from './python-models.js';
export { toolTypes } from './typescript-types.js';
