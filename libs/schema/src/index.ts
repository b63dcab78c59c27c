export { canonicalJson, fingerprint, sha256Hex } from './canonical.js';
export { compileSchema, type CompiledSchema, validateMessage } from './compile.js';
export { type Coercion } from './coerce.js';
export { explainErrors, type Fault, type FaultKind } from './explain.js';
export { checkFanOut, checkSchemaSize } from './schema-limits.js';
export { inlineDefinitions, SCHEMA_STYLES, type SchemaStyle } from './inline-definitions.js';
export { boundedMatcher, PatternRefused, type Matcher } from './pattern.js';
export { ArgumentReader, type ArgumentRules, type ReadArguments } from './read-arguments.js';
