import type { Json, JsonObject } from '@toolfleet/client';

/** How a field is filled in. `json`: whatever has no simple input. */
export type FieldInput =
  | { kind: 'text'; multiline: boolean; maxLength?: number }
  | { kind: 'number'; whole: boolean; min?: number; max?: number }
  | { kind: 'boolean' }
  | { kind: 'choice'; options: Json[] }
  | { kind: 'json'; example: string };

/** One argument of a tool as a form shows it. */
export interface Field {
  name: string;
  label: string;
  help: string;
  required: boolean;
  input: FieldInput;
  /** Text the form begins with. */
  initial: string;
}

/** Names of arguments that hold programs or long texts. */
const LONG_TEXT = /^(code|script|program|text|content|body|prompt|query|task|expression_list|markdown|html|source)$/i;
const LONG_LENGTH = 500;

/** Fields of a tool's input schema: required ones first, then in the order of the schema. */
export function fieldsOf(schema: JsonObject): Field[] {
  const properties = objectOf(schema['properties']);
  const required = new Set(Array.isArray(schema['required']) ? schema['required'] : []);
  return Object.entries(properties)
    .map(([name, property]) => fieldOf(name, resolved(objectOf(property), schema), schema, required.has(name)))
    .toSorted((a, b) => Number(b.required) - Number(a.required));
}

/** True when the schema says of arguments more than its properties do: then only the JSON editor reaches all of it. */
export function needsJson(schema: JsonObject): boolean {
  return ['oneOf', 'anyOf', 'allOf', 'if', 'patternProperties'].some((keyword) => schema[keyword] !== undefined);
}

/** A schema behind `#/$defs/…`; anything else stays as it is. */
export function resolved(schema: JsonObject, root: JsonObject): JsonObject {
  const pointer = schema['$ref'];
  if (typeof pointer !== 'string' || !pointer.startsWith('#/')) return schema;
  let target: Json | undefined = root;
  for (const part of pointer.slice(2).split('/')) {
    target = objectOf(target)[part.replaceAll('~1', '/').replaceAll('~0', '~')];
  }
  const { $ref: _ref, ...beside } = schema;
  return { ...objectOf(target), ...beside };
}

/** Types a schema names, without `null`: an absent argument says the same. */
export function typesOf(schema: JsonObject): string[] {
  const { type } = schema;
  const types = Array.isArray(type) ? type : [type];
  return types.filter((one): one is string => typeof one === 'string' && one !== 'null');
}

function fieldOf(name: string, schema: JsonObject, root: JsonObject, required: boolean): Field {
  const { title, description, default: initial } = schema;
  const input = inputOf(name, schema, root);
  return {
    name,
    label: typeof title === 'string' && title !== '' ? title : name,
    help: typeof description === 'string' ? description : '',
    required,
    input,
    // Nobody knows the shape of an object by heart: a form begins with its outline.
    initial: initial !== undefined ? textOf(initial, input) : required && input.kind === 'json' ? input.example : '',
  };
}

function inputOf(name: string, schema: JsonObject, root: JsonObject): FieldInput {
  const options = schema['const'] === undefined ? schema['enum'] : [schema['const']];
  if (Array.isArray(options) && options.length > 0 && options.length <= 200) return { kind: 'choice', options };
  const types = typesOf(schema);
  if (types.length === 1) {
    if (types[0] === 'boolean') return { kind: 'boolean' };
    if (types[0] === 'integer' || types[0] === 'number') return numberInput(schema, types[0] === 'integer');
    if (types[0] === 'string') return textInput(name, schema);
  }
  return { kind: 'json', example: types.length === 1 ? JSON.stringify(outlineOf(schema, root), null, 2) : '' };
}

/** A value of the shape a schema wants: its required parts, empty. */
function outlineOf(schema: JsonObject, root: JsonObject, depth = 0): Json {
  const { const: fixed, default: initial, enum: choices } = schema;
  const given = initial ?? fixed ?? (Array.isArray(choices) ? choices[0] : undefined);
  if (given !== undefined) return given;
  switch (typesOf(schema)[0]) {
    case 'object': {
      const required = Array.isArray(schema['required']) && depth < 3 ? schema['required'] : [];
      const properties = objectOf(schema['properties']);
      return Object.fromEntries(
        required
          .filter((name): name is string => typeof name === 'string')
          .map((name) => [name, outlineOf(resolved(objectOf(properties[name]), root), root, depth + 1)]),
      );
    }
    case 'array':
      return [];
    case 'string':
      return '';
    case 'boolean':
      return false;
    case 'integer':
    case 'number':
      return 0;
    default:
      return null;
  }
}

function numberInput({ minimum, maximum }: JsonObject, whole: boolean): FieldInput {
  return {
    kind: 'number',
    whole,
    ...(typeof minimum === 'number' ? { min: minimum } : {}),
    ...(typeof maximum === 'number' ? { max: maximum } : {}),
  };
}

function textInput(name: string, { maxLength, format, contentMediaType }: JsonObject): FieldInput {
  const isShort = typeof format === 'string' || (typeof maxLength === 'number' && maxLength <= LONG_LENGTH);
  return {
    kind: 'text',
    multiline: contentMediaType !== undefined || (LONG_TEXT.test(name) && !isShort),
    ...(typeof maxLength === 'number' ? { maxLength } : {}),
  };
}

/** A value as the text its input holds; `valueOf` in form-values.ts reads it back. */
export function textOf(value: Json, input: FieldInput): string {
  if (input.kind === 'choice') return String(input.options.findIndex((option) => equal(option, value)));
  if (input.kind === 'json') return JSON.stringify(value, null, 2);
  return typeof value === 'string' ? value : JSON.stringify(value);
}

const equal = (a: Json, b: Json): boolean => JSON.stringify(a) === JSON.stringify(b);

export function objectOf(value: Json | undefined): JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : {};
}
