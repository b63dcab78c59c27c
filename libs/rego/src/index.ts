export { parseModule } from './parse.js';
export { Program } from './program.js';
export type { Evaluation, Run } from './evaluation.js';
export type { KnownDocuments } from './known-documents.js';
export type { Node } from './rule-tree.js';
export { builtinNames } from './builtins/catalogue.js';
export { formatValue } from './builtins/sprintf.js';
export { RegoError, type Place, type RegoErrorCode } from './rego-error.js';
export { isArray, isObject, objectKeys, type PlainObject, RegoSet, type Value } from './value.js';
