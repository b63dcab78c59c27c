/**
 * Shapes of messages as a reader sees them: a JSON Schema inferred from samples. Fields that every sample has are required,
 * their types are fixed, everything else is open: exactly what a reader of that release may rely on.
 */
import { isJsonObject, type Json, type JsonObject } from '@toolfleet/contracts';

/** Parts with keys that are data and not fields: arguments of tools, outputs, schemas, plans of executors. */
const OPEN = new Set([
  'annotations',
  'arguments',
  'binding',
  'definitions',
  'details',
  'input_schema',
  'metadata',
  'options',
  'output_schema',
  'prior',
  'usage_by_scope',
]);

/** What tools answer: of any type. */
const ANYTHING = new Set(['output', 'value']);

/** Fields that tell the forms of a message with one name apart: a shared lease and its settlement, the end of a call. */
export const FORMS: readonly string[] = ['shared', 'lease', 'row'];

/** The schema all samples fit into and depend on. */
export function shapeOf(samples: readonly Json[]): JsonObject {
  const types = [...new Set(samples.map(typeOf))].toSorted();
  if (types.length !== 1) return { type: types };
  if (types[0] === 'array') {
    const items = (samples as Json[][]).flat();
    return items.length > 0 ? { type: 'array', items: shapeOf(items) } : { type: 'array' };
  }
  return types[0] === 'object' ? formsOf(samples as JsonObject[], FORMS) : { type: types[0]! };
}

/** Each form has its own shape. */
function formsOf(samples: readonly JsonObject[], [field, ...others]: readonly string[]): JsonObject {
  if (field === undefined) return objectShape(samples);
  const [having, lacking] = [true, false].map((has) => samples.filter((sample) => field in sample === has));
  if (having!.length === 0 || lacking!.length === 0) return formsOf(samples, others);
  return { if: { required: [field] }, then: formsOf(having!, others), else: formsOf(lacking!, others) };
}

/** Ways to the fields that a reader of this shape relies on; `*` is any entry of a list. */
export function reliedOn(shape: JsonObject, way: readonly string[] = []): string[][] {
  const {
    properties = {},
    required = [],
    items,
  } = shape as {
    properties?: Record<string, JsonObject>;
    required?: string[];
    items?: JsonObject;
  };
  const parts = [shape['then'], shape['else']].filter((part) => part !== undefined) as JsonObject[];
  return [
    ...required.map((field) => [...way, field]),
    ...Object.entries(properties).flatMap(([field, part]) => reliedOn(part, [...way, field])),
    ...(items ? reliedOn(items, [...way, '*']) : []),
    ...parts.flatMap((part) => reliedOn(part, way)),
  ];
}

/** The message without the field at a way of `reliedOn`; undefined if it does not have it. */
export function without(body: Json, [first, ...rest]: readonly string[]): Json | undefined {
  if (first === '*') {
    if (!Array.isArray(body)) return undefined;
    const changed = body.map((entry) => without(entry, rest));
    return changed.some((entry) => entry !== undefined) ? changed.map((entry, at) => entry ?? body[at]!) : undefined;
  }
  if (!isJsonObject(body)) return undefined;
  const { [first!]: part, ...others } = body;
  if (part === undefined || rest.length === 0) return part === undefined ? undefined : others;
  const changed = without(part, rest);
  return changed === undefined ? undefined : { ...others, [first!]: changed };
}

function objectShape(samples: readonly JsonObject[]): JsonObject {
  const names = [...new Set(samples.flatMap((sample) => Object.keys(sample)))].toSorted();
  const properties = names.map((name): [string, JsonObject] => {
    const values = samples.flatMap((sample) => (name in sample ? [sample[name] as Json] : []));
    if (ANYTHING.has(name)) return [name, {}];
    return [name, OPEN.has(name) ? { type: [...new Set(values.map(typeOf))].toSorted() } : shapeOf(values)];
  });
  return {
    type: 'object',
    properties: Object.fromEntries(properties),
    required: names.filter((name) => samples.every((sample) => name in sample)),
  };
}

function typeOf(value: Json): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  return typeof value;
}
