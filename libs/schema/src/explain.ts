import type { ErrorObject } from 'ajv';
import type { Json, JsonObject } from '@toolfleet/contracts';
import { jsonType } from './coerce-scalar.js';

/** What is wrong with an argument. */
type FaultKind =
  | 'missing'
  | 'null_or_empty'
  | 'type_mismatch'
  | 'out_of_range'
  | 'length'
  | 'enum'
  | 'pattern'
  | 'format'
  | 'unknown'
  | 'duplicate'
  | 'no_match'
  | 'invalid';

/** One fault of the arguments. All faults of a call are reported together. */
export interface Fault {
  /** Name of the top-level argument; empty for the arguments as a whole. */
  param: string;
  /** JSON pointer. */
  path: string;
  kind: FaultKind;
  message: string;
}

/** Maximum length of an excerpt of a value in a message. */
const SHOWN_CHARS = 60;
/** Maximum length of the path and the message of a fault: both quote names that the caller chose. */
const MAX_PLACE_CHARS = 200;
const MAX_MESSAGE_CHARS = 500;
/** Maximum number of faults in a response. */
export const MAX_FAULTS = 50;
/** Errors read from each end of a long list: union branches report one per form and place, the union itself comes last. */
const MAX_ERRORS = 1_000;

/** Converts errors of ajv to faults, one per path and kind, at most `MAX_FAULTS`. */
export function explainErrors(errors: readonly ErrorObject[]): Fault[] {
  const faults: Fault[] = [];
  const seen = new Set<string>();
  for (const error of withoutBranches(withoutMiddle(errors))) {
    const fault = explain(error);
    if (!fault) continue;
    const id = `${fault.path} ${fault.kind}`;
    if (seen.has(id)) continue;
    seen.add(id);
    faults.push(fault);
    if (faults.length >= MAX_FAULTS) break;
  }
  return faults;
}

function withoutMiddle(errors: readonly ErrorObject[]): readonly ErrorObject[] {
  return errors.length <= 2 * MAX_ERRORS ? errors : [...errors.slice(0, MAX_ERRORS), ...errors.slice(-MAX_ERRORS)];
}

/** Creates a fault, cut to the limits of path and message; `param` is derived from the path. */
export function faultAt(place: string, kind: FaultKind, text: string): Fault {
  const path = shorten(place, MAX_PLACE_CHARS);
  const first = path.split('/')[1] ?? '';
  const message = shorten(text, MAX_MESSAGE_CHARS);
  return { param: first.replaceAll('~1', '/').replaceAll('~0', '~'), path, kind, message };
}

/**
 * Drops errors inside the branches of a failed union: the error of the union itself explains enough. A branch that is a `$ref`
 * reports under the path of its definition, so such errors are recognized by their place in the value.
 */
function withoutBranches(errors: readonly ErrorObject[]): readonly ErrorObject[] {
  const unions = new Map<string, string[]>(); // schema paths of failed unions by the place in the value
  for (const { keyword, instancePath, schemaPath } of errors) {
    if (keyword !== 'anyOf' && keyword !== 'oneOf') continue;
    const known = unions.get(instancePath);
    if (known) known.push(schemaPath);
    else unions.set(instancePath, [schemaPath]);
  }
  return unions.size === 0 ? errors : errors.filter((error) => !isInBranch(error, unions));
}

function isInBranch(
  { instancePath, schemaPath }: ErrorObject,
  unions: ReadonlyMap<string, readonly string[]>,
): boolean {
  for (let end = instancePath.length; end >= 0; end = instancePath.lastIndexOf('/', end - 1)) {
    const place = instancePath.slice(0, end);
    for (const union of unions.get(place) ?? []) {
      if (place === instancePath && schemaPath === union) continue; // the union itself
      if (schemaPath.startsWith(`${union}/`) || schemaPath.startsWith('#/$defs/')) return true;
    }
    if (end === 0) break;
  }
  return false;
}

function explain(error: ErrorObject): Fault | undefined {
  const params = error.params as Record<string, Json>;
  const path = shorten(error.instancePath, MAX_PLACE_CHARS);
  const name = toParameterName(path);
  const data = error.data as Json;
  const fault = (kind: FaultKind, message: string, at = path) => faultAt(at, kind, message);
  switch (error.keyword) {
    case 'required':
    case 'dependentRequired': {
      const at = `${path}/${String(params.missingProperty).replaceAll('~', '~0').replaceAll('/', '~1')}`;
      return fault('missing', `Required parameter '${toParameterName(at)}' is missing`, at);
    }
    case 'additionalProperties':
    case 'unevaluatedProperties': {
      const extra = shorten(String(params.additionalProperty ?? params.unevaluatedProperty), MAX_PLACE_CHARS);
      const at = `${path}/${extra.replaceAll('~', '~0').replaceAll('/', '~1')}`;
      return fault('unknown', `Unknown parameter '${toParameterName(at)}'`, at);
    }
    case 'type':
      return fault('type_mismatch', `Cannot coerce ${describe(data)} to ${[params.type].flat().join(' or ')}`);
    case 'enum':
    case 'const': {
      const allowed = error.keyword === 'enum' ? (params.allowedValues as Json[]) : [params.allowedValue ?? null];
      return fault('enum', `Parameter '${name}' must be one of ${shorten(JSON.stringify(allowed), 400)}`);
    }
    case 'minimum':
    case 'maximum':
    case 'exclusiveMinimum':
    case 'exclusiveMaximum':
      return fault('out_of_range', `Parameter '${name}' must be ${String(params.comparison)} ${String(params.limit)}`);
    case 'multipleOf':
      return fault('out_of_range', `Parameter '${name}' must be a multiple of ${String(params.multipleOf)}`);
    case 'minLength':
    case 'maxLength':
    case 'minItems':
    case 'maxItems':
    case 'minProperties':
    case 'maxProperties':
      return fault('length', `Parameter '${name}' ${error.message ?? 'has a wrong length'}`);
    case 'pattern':
      return fault('pattern', `Parameter '${name}' must match pattern ${shorten(String(params.pattern))}`);
    case 'format':
      return params.format === 'int32' || params.format === 'int64'
        ? fault('out_of_range', `Long value ${String(data)} out of int range`)
        : fault('format', `Parameter '${name}' must be a valid ${String(params.format)}`);
    case 'uniqueItems':
      return fault('duplicate', `Parameter '${name}' must not contain duplicates`);
    case 'anyOf':
    case 'oneOf':
      return fault('no_match', unionMessage(error, name));
    case 'steps':
      return fault('invalid', String(error.message));
    case 'if':
      return undefined; // the errors of then/else explain the cause
    default:
      return fault('invalid', `Parameter '${name}' ${error.message ?? 'is invalid'}`);
  }
}

function unionMessage(error: ErrorObject, name: string): string {
  if (error.keyword === 'oneOf' && (error.params as JsonObject).passingSchemas) {
    return `Parameter '${name}' matches more than one of the allowed forms`;
  }
  const branches = (error.schema as JsonObject[])
    .map((branch) => branch.type)
    .filter((type) => typeof type === 'string');
  const expected = branches.length > 0 ? ` (${[...new Set(branches)].join(', ')})` : '';
  return `Parameter '${name}' matches none of the allowed forms${expected}`;
}

/** Describes a value for messages: "string 'abc'", "float 3.5". */
function describe(value: Json): string {
  const type = jsonType(value);
  if (type === 'string') return `string '${shorten(value as string)}'`;
  if (type === 'number') return `float ${String(value)}`;
  return type === 'integer' ? `integer ${String(value)}` : type;
}

/** Cuts a text to `chars` UTF-16 units and marks the cut with an ellipsis. */
export function shorten(text: string, chars = SHOWN_CHARS): string {
  return text.length > chars ? `${text.slice(0, chars)}…` : text;
}

/** Converts a JSON pointer to the notation of messages: `/filter/0/name` becomes `filter.0.name`. */
function toParameterName(path: string): string {
  return path
    .slice(1)
    .split('/')
    .map((token) => token.replaceAll('~1', '/').replaceAll('~0', '~'))
    .join('.');
}
