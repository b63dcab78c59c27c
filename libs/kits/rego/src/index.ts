export { parseModule } from './parse.js';
export { Program } from './program.js';
export type { Evaluation, Run } from './evaluation.js';
export type { Node } from './rule-tree.js';
export { formatValue } from './builtins/sprintf.js';
export { RegoError, type Place } from './rego-error.js';
export { isArray, isObject, objectKeys, type PlainObject, RegoSet, type RegoValue, toJson } from './value.js';
