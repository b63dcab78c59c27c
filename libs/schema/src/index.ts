export { canonicalJson, fingerprint, sha256Hex } from './canonical.js';
export { compileSchema, type CompiledSchema } from './compile.js';
export { type Coercion } from './coerce.js';
export { explainErrors, type Fault, type FaultKind } from './explain.js';
export { checkFanOut, MAX_FAN_OUT, MAX_SCHEMA_PARTS } from './metered-schema.js';
export { checkSchemaSize, MAX_ARGUMENT_DEPTH, MAX_SCHEMA_CHARS, MAX_SCHEMA_DEPTH } from './limits.js';
export { boundedMatcher, PatternRefused, type Matcher } from './pattern.js';
export { ArgumentReader, type ArgumentRules, type ReadArguments } from './read-arguments.js';
export { validateMessage } from './validate-message.js';
