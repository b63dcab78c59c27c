import { isJsonObject, type Json, type JsonObject } from '@toolfleet/base';
import type { Findings } from '../findings.js';
import { arrayAt, objectAt, setOwn, stringAt } from '../json-pointer.js';
import type { RefResolver } from '../load/references.js';
import type { ParameterPlace, ParameterPlan } from '../plan.js';
import { isConnectionHeader } from '../serialise/build-request.js';
import { templateNames } from '../serialise/expand-path.js';
import { defaultStyle } from '../serialise/serialise-parameter.js';
import { toObject, type SchemaConverter } from './convert-schema.js';
import { allowsNull } from './dialect-30.js';
import type { RawOperation } from './expand-operations.js';
import { holdsReference } from './repair-keywords.js';

/** A parameter of an operation, with the pointer of its declaration. */
interface Declared {
  node: JsonObject;
  pointer: string;
  in: ParameterPlace;
  name: string;
}

/** Parameters as arguments of the tool, and their plans. */
export interface ConvertedParameters {
  properties: JsonObject;
  required: string[];
  targets: Set<string>;
  plans: ParameterPlan[];
}

/** Dependencies of converting parameters and bodies. */
export interface ParameterContext {
  refs: RefResolver;
  converter: SchemaConverter;
  findings: Findings;
  /** True for parameters that credentials or static configuration supply. */
  isSupplied?: (place: ParameterPlace, name: string) => boolean;
}

const PLACES: ReadonlySet<string> = new Set(['path', 'query', 'querystring', 'header', 'cookie']);
/** Header parameters that OpenAPI says to ignore (Parameter Object). */
const IGNORED_HEADERS: ReadonlySet<string> = new Set(['accept', 'content-type', 'authorization']);

/**
 * Parameters of path item and operation as flat arguments under their own names; `{in}_{name}` only when two share a name
 * or one is called `body` and there is a request body.
 */
export function convertParameters(operation: RawOperation, context: ParameterContext): ConvertedParameters {
  const declared = declaredParameters(operation, context);
  const out: ConvertedParameters = { properties: {}, required: [], targets: new Set(), plans: [] };
  const counts = new Map<string, number>();
  for (const { name } of declared) counts.set(name, (counts.get(name) ?? 0) + 1);
  for (const parameter of declared) {
    const clash =
      (counts.get(parameter.name) ?? 0) > 1 || (parameter.name === 'body' && operation.node.requestBody !== undefined);
    const argument = freeName(
      clash ? `${parameter.in}_${parameter.name}` : parameter.name,
      out.properties,
      counts,
      clash,
    );
    const plan = planParameter(parameter, argument, operation, context);
    const schema = parameterSchema(parameter, out.targets, context);
    if (allowsNull(schema)) plan.nullable = true;
    setOwn(
      out.properties,
      argument,
      plan.in === 'path' ? notEmpty(schema, parameter, plan, context) : blankable(schema, parameter.node),
    );
    if (plan.required) out.required.push(argument);
    out.plans.push(plan);
  }
  return out;
}

function freeName(wanted: string, taken: JsonObject, counts: ReadonlyMap<string, number>, clash: boolean): string {
  let name = wanted;
  for (let suffix = 2; Object.hasOwn(taken, name) || (clash && counts.has(name)); suffix += 1)
    name = `${wanted}_${suffix}`;
  return name;
}

function declaredParameters(operation: RawOperation, context: ParameterContext): Declared[] {
  const merged = new Map<string, Declared>();
  for (const [list, pointer] of [
    [arrayAt(operation.pathItem, 'parameters'), `${operation.pathItemPointer}/parameters`],
    [arrayAt(operation.node, 'parameters'), `${operation.pointer}/parameters`],
  ] as const) {
    list.forEach((item, index) => {
      const parameter = readParameter(item, `${pointer}/${index}`, context);
      if (!parameter) return;
      const name = parameter.in === 'header' ? parameter.name.toLowerCase() : parameter.name;
      merged.set(`${parameter.in}\n${name}`, parameter);
    });
  }
  addUndeclared(operation, merged, context);
  return [...merged.values()].filter(
    ({ in: place, name }) =>
      !(place === 'header' && IGNORED_HEADERS.has(name.toLowerCase())) && !context.isSupplied?.(place, name),
  );
}

function readParameter(item: Json, pointer: string, { refs, findings }: ParameterContext): Declared | undefined {
  const followed = refs.follow(item, pointer);
  if ('failed' in followed) {
    findings.warn(
      pointer,
      `the parameter cannot be read (${followed.failed}: ${followed.ref.slice(0, 200)}) and is left out`,
    );
    return undefined;
  }
  const name = stringAt(followed.node, 'name');
  const place = stringAt(followed.node, 'in')?.toLowerCase() ?? '';
  if (name === undefined || !PLACES.has(place)) {
    findings.warn(followed.pointer, 'a parameter without a name or with an unknown "in" is left out');
    return undefined;
  }
  return { node: followed.node, pointer: followed.pointer, in: place as ParameterPlace, name };
}

/** Adds an undeclared `{id}` of the path as a required string; otherwise the braces would stay in the URL. */
function addUndeclared(operation: RawOperation, merged: Map<string, Declared>, { findings }: ParameterContext): void {
  for (const name of templateNames(operation.path)) {
    if (merged.has(`path\n${name}`)) continue;
    const plain = name.replace(/^\+/, '');
    const similar = [...merged.values()].find(
      (parameter) => parameter.in === 'path' && parameter.name.toLowerCase() === plain.toLowerCase(),
    );
    const node = similar?.node ?? { name, in: 'path', required: true, schema: { type: 'string' } };
    if (plain === name)
      findings.warn(
        operation.pointer,
        `the path parameter "${name}" is not declared${similar ? ' in this spelling' : ''}`,
      );
    if (similar) merged.delete(`path\n${similar.name}`);
    merged.set(`path\n${name}`, { node, pointer: similar?.pointer ?? operation.pointer, in: 'path', name });
  }
}

function planParameter(
  parameter: Declared,
  argument: string,
  operation: RawOperation,
  { findings }: ParameterContext,
): ParameterPlan {
  const { node, in: place, name } = parameter;
  const style = stringAt(node, 'style') ?? defaultStyle(place);
  let required = place === 'path' || node.required === true;
  if (place === 'path' && !templateNames(operation.path).includes(name)) {
    findings.warn(parameter.pointer, `the path has no {${name}}: the parameter is not sent`);
    required = false;
  }
  if (place === 'header' && isConnectionHeader(name)) {
    findings.warn(parameter.pointer, `the header ${name} belongs to the connection: the argument is not sent`);
    required = false;
  }
  const content = objectAt(node, 'content');
  const plan: ParameterPlan = {
    argument,
    in: place,
    name,
    style,
    explode: typeof node.explode === 'boolean' ? node.explode : style === 'form',
    required,
  };
  if (node.allowReserved === true) plan.allow_reserved = true;
  if (node.schema === undefined && content) plan.content = Object.keys(content)[0] ?? 'text/plain';
  return plan;
}

function parameterSchema(parameter: Declared, targets: Set<string>, { converter }: ParameterContext): JsonObject {
  const { node, pointer } = parameter;
  const content = objectAt(node, 'content');
  const mediaType = content && Object.keys(content)[0];
  const inContent = node.schema === undefined && content && mediaType !== undefined;
  const source = inContent ? objectAt(content, mediaType)?.schema : node.schema;
  const converted = converter.convert(source, `${pointer}/schema`);
  for (const target of converted.targets) targets.add(target);
  const schema = toObject(converted.schema);
  const description = stringAt(node, 'description');
  const described: JsonObject =
    description !== undefined && schema.description === undefined ? { ...schema, description } : schema;
  const examples = described.examples === undefined ? exampleValues(node) : [];
  return examples.length > 0 && !holdsReference(examples) ? { ...described, examples } : described;
}

/**
 * Requires path values that are not empty: an empty segment is rejected when the request is built. In matrix style an empty
 * text becomes `;name` (allowed).
 */
function notEmpty(
  schema: JsonObject,
  parameter: Declared,
  plan: ParameterPlan,
  { refs }: ParameterContext,
): JsonObject {
  const types = [(refs.nodeOf(parameter.node.schema) ?? schema).type].flat();
  const least = plan.style === 'matrix' ? 0 : 1;
  const out: JsonObject = { ...schema };
  if (types.includes('string') && !(Number(out.minLength) > 0)) out.minLength = least;
  if (types.includes('array') && !(Number(out.minItems) > 0)) out.minItems = 1;
  if (types.includes('object') && !(Number(out.minProperties) > 0)) out.minProperties = 1;
  return out;
}

/** Adds an explicit `minLength: 0` where the document allows an empty value. */
function blankable(schema: JsonObject, node: JsonObject): JsonObject {
  const isBlank = node.allowEmptyValue === true || schema.default === '';
  return isBlank && schema.minLength === undefined ? { ...schema, minLength: 0 } : schema;
}

/** `example`, or the values of the first three `examples`. */
function exampleValues(node: JsonObject): Json[] {
  if (node.example !== undefined) return [node.example];
  const examples = objectAt(node, 'examples') ?? {};
  return Object.values(examples)
    .slice(0, 3)
    .flatMap((example) => (isJsonObject(example) && example.value !== undefined ? [example.value] : []));
}
