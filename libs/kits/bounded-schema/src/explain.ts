import type { ErrorObject } from 'ajv';
import { isJsonObject, type Json, type JsonObject } from '@toolfleet/base';
import { suggestion } from '@toolfleet/base/did-you-mean';
import { jsonType } from './coerce-scalar.js';
import { escapePointer, schemaAt, unescapePointer } from './subschemas.js';

/** The fault of an argument. */
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
export interface ArgumentFault {
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
/** Names that an unknown one is compared with. A comparison takes the product of their lengths. */
const MAX_COMPARED = 30;
/** Maximum number of faults in a response. */
export const MAX_FAULTS = 50;
/** Errors read from each end of a long list: union branches report one per form and place, the union itself comes last. */
const MAX_ERRORS = 1_000;

/**
 * Converts errors of ajv to faults, one per path and kind, at most `MAX_FAULTS`.
 * @param root the schema with definitions that the forms of a union may be
 */
export function explainErrors(errors: readonly ErrorObject[], root: JsonObject = {}): ArgumentFault[] {
  const faults: ArgumentFault[] = [];
  const seen = new Set<string>();
  for (const error of withoutBranches(withoutMiddle(errors), root)) {
    const fault = explain(error, root);
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
export function faultAt(place: string, kind: FaultKind, text: string): ArgumentFault {
  const path = shorten(place, MAX_PLACE_CHARS);
  const param = unescapePointer(path.split('/')[1] ?? '');
  const message = shorten(text, MAX_MESSAGE_CHARS);
  return { param, path, kind, message };
}

/** A failed union: the parts of its forms, and of the form that the value names by its discriminator. */
interface FailedUnion {
  error: ErrorObject;
  parts: ReadonlySet<Json>;
  meant?: ReadonlySet<Json>;
}

/**
 * Drops errors inside the forms of a failed union: the error of the union itself explains enough. If the value names its form, that
 * form's errors are kept instead.
 */
function withoutBranches(errors: readonly ErrorObject[], root: JsonObject): readonly ErrorObject[] {
  const unions = new Map<string, FailedUnion[]>(); // by the place in the value
  const partsOf = new Map<Json, ReadonlySet<Json>>();
  const parts = (form: Json): ReadonlySet<Json> => {
    const known = partsOf.get(form) ?? collectParts(form, root);
    partsOf.set(form, known);
    return known;
  };
  for (const error of errors) {
    const { keyword, instancePath, schema } = error;
    if (keyword !== 'anyOf' && keyword !== 'oneOf') continue;
    const meant = meantForm(error, root);
    const union = { error, parts: parts(schema as Json), meant: meant === undefined ? undefined : parts(meant) };
    const known = unions.get(instancePath);
    if (known) known.push(union);
    else unions.set(instancePath, [union]);
  }
  return unions.size === 0 ? errors : errors.filter((error) => !isInBranch(error, unions));
}

function isInBranch(error: ErrorObject, unions: ReadonlyMap<string, readonly FailedUnion[]>): boolean {
  const { instancePath, parentSchema } = error;
  for (let end = instancePath.length; end >= 0; end = instancePath.lastIndexOf('/', end - 1)) {
    for (const { error: union, parts, meant } of unions.get(instancePath.slice(0, end)) ?? []) {
      if (union === error ? meant !== undefined : parts.has(parentSchema as Json) && !meant?.has(parentSchema as Json))
        return true;
    }
    if (end === 0) break;
  }
  return false;
}

/** All objects of a schema and of the definitions that it refers to. */
function collectParts(schema: Json, root: JsonObject): ReadonlySet<Json> {
  const parts = new Set<Json>();
  const open = [schema];
  for (let part = open.pop(); part !== undefined; part = open.pop()) {
    if (typeof part !== 'object' || part === null || parts.has(part)) continue;
    parts.add(part);
    open.push(...Object.values(part));
    if (isJsonObject(part) && typeof part.$ref === 'string') open.push(schemaAt(root, part.$ref.slice(1)) ?? null);
  }
  return parts;
}

/** The property that tells the forms of a union apart, each by its own `const` or `enum`, and the values of each form. */
function discriminatorOf(forms: readonly Json[], root: JsonObject): { name: string; kinds: Json[][] } | undefined {
  const resolved = forms.map((form) => {
    const target = isJsonObject(form) && typeof form.$ref === 'string' ? schemaAt(root, form.$ref.slice(1)) : form;
    return isJsonObject(target) && isJsonObject(target.properties) ? target.properties : {};
  });
  for (const name of Object.keys(resolved[0] ?? {})) {
    const kinds = resolved.map((properties) => {
      const property = properties[name];
      if (!isJsonObject(property)) return [];
      return property.const !== undefined ? [property.const] : Array.isArray(property.enum) ? property.enum : [];
    });
    const all = kinds.flat();
    if (kinds.every(({ length }) => length > 0) && new Set(all).size === all.length) return { name, kinds };
  }
  return undefined;
}

/** The form that a value names by its discriminator. */
function meantForm({ schema, data }: ErrorObject, root: JsonObject): Json | undefined {
  if (!isJsonObject(data as Json)) return undefined;
  const forms = schema as Json[];
  const discriminator = discriminatorOf(forms, root);
  if (!discriminator) return undefined;
  const kind = (data as JsonObject)[discriminator.name] as Json;
  return forms[discriminator.kinds.findIndex((kinds) => kinds.includes(kind))];
}

function explain(error: ErrorObject, root: JsonObject): ArgumentFault | undefined {
  const params = error.params as Record<string, Json>;
  const path = shorten(error.instancePath, MAX_PLACE_CHARS);
  const name = toParameterName(path);
  const data = error.data as Json;
  const fault = (kind: FaultKind, message: string, at = path) => faultAt(at, kind, message);
  switch (error.keyword) {
    case 'required':
    case 'dependentRequired': {
      const at = `${path}/${escapePointer(String(params.missingProperty))}`;
      return fault('missing', `Required parameter '${toParameterName(at)}' is missing`, at);
    }
    case 'additionalProperties':
    case 'unevaluatedProperties': {
      const extra = shorten(String(params.additionalProperty ?? params.unevaluatedProperty), MAX_PLACE_CHARS);
      const at = `${path}/${escapePointer(extra)}`;
      const meant = suggestion(extra, Object.keys(error.parentSchema?.['properties'] ?? {}).slice(0, MAX_COMPARED));
      return fault('unknown', `Unknown parameter '${toParameterName(at)}'${meant}`, at);
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
      return fault('no_match', unionMessage(error, name, root));
    case 'steps':
      return fault('invalid', String(error.message));
    case 'if':
      return undefined; // the errors of then/else explain the cause
    default:
      return fault('invalid', `Parameter '${name}' ${error.message ?? 'is invalid'}`);
  }
}

function unionMessage(error: ErrorObject, name: string, root: JsonObject): string {
  if (error.keyword === 'oneOf' && (error.params as JsonObject).passingSchemas) {
    return `Parameter '${name}' matches more than one of the allowed forms`;
  }
  const discriminator = discriminatorOf(error.schema as Json[], root);
  if (discriminator) {
    const kinds = discriminator.kinds.flat().map((kind) => JSON.stringify(kind));
    return `Parameter '${name}' must have ${discriminator.name} ${shorten(kinds.join(' or '), 400)}`;
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
export function toParameterName(path: string): string {
  return path.slice(1).split('/').map(unescapePointer).join('.');
}
