/**
 * Shapes of messages as a reader sees them: a JSON Schema inferred from samples. Fields that every sample has are required,
 * their types are fixed, everything else is open: exactly what a reader of that release may rely on.
 */
import type { Json, JsonObject } from '@toolfleet/contracts';

/** Parts whose keys are data and not fields: arguments of tools, outputs, schemas, plans of executors. */
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

/** The schema all samples fit into and depend on. */
export function shapeOf(samples: readonly Json[]): JsonObject {
  const types = [...new Set(samples.map(typeOf))].toSorted();
  if (types.length !== 1) return { type: types };
  if (types[0] === 'array') {
    const items = (samples as Json[][]).flat();
    return items.length > 0 ? { type: 'array', items: shapeOf(items) } : { type: 'array' };
  }
  return types[0] === 'object' ? objectShape(samples as JsonObject[]) : { type: types[0]! };
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
