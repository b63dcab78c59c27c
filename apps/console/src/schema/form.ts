import type { Json, JsonObject } from '@toolfleet/client';

/**
 * Control of a field. Texts of `words` and `checks` list them separated by spaces or commas; `json` is for
 * values without a simple control.
 */
export type FieldInput =
  | { kind: 'text'; multiline: boolean; maxLength?: number; secret?: boolean }
  | { kind: 'number'; whole: boolean; min?: number; max?: number }
  | ChoiceInput
  | { kind: 'words' }
  | { kind: 'checks'; options: readonly string[] }
  | { kind: 'json'; example: string };

/** One of some values; `texts` are their names. */
export type ChoiceInput = { kind: 'choice'; options: readonly Json[]; texts?: readonly string[] };

/** One argument of a tool, or one member of a body, as a form shows it. */
export interface FormField {
  name: string;
  label: string;
  help: string;
  required: boolean;
  input: FieldInput;
  /** Initial text. */
  initial: string;
  placeholder?: string | undefined;
  /** Name of the choice of no value. */
  unset?: string | undefined;
}

/** Names of arguments that usually hold programs or long texts. */
const LONG_TEXT = /^(code|script|program|text|content|body|prompt|query|task|expression_list|markdown|html|source)$/i;
const LONG_LENGTH = 500;

/** Fields of a tool's input schema: required ones first, then in the order of the schema. */
export function toFields(schema: JsonObject): FormField[] {
  const properties = asObject(schema['properties']);
  const required = new Set(Array.isArray(schema['required']) ? schema['required'] : []);
  return Object.entries(properties)
    .map(([name, property]) => toField(name, dereference(asObject(property), schema), schema, required.has(name)))
    .toSorted((a, b) => Number(b.required) - Number(a.required));
}

/** True when the schema has keywords that a form cannot show, so that arguments must be entered as JSON. */
export function needsJson(schema: JsonObject): boolean {
  return ['oneOf', 'anyOf', 'allOf', 'if', 'patternProperties'].some((keyword) => schema[keyword] !== undefined);
}

/** Follows a `$ref` within the document (`#/…`). Other schemas are returned unchanged. */
export function dereference(schema: JsonObject, root: JsonObject): JsonObject {
  const pointer = schema['$ref'];
  if (typeof pointer !== 'string' || !pointer.startsWith('#/')) return schema;
  let target: Json | undefined = root;
  for (const part of pointer.slice(2).split('/')) {
    target = asObject(target)[part.replaceAll('~1', '/').replaceAll('~0', '~')];
  }
  const { $ref: _ref, ...beside } = schema;
  return { ...asObject(target), ...beside };
}

/** Types of a schema without `null`: the argument is omitted instead. */
export function schemaTypes(schema: JsonObject): string[] {
  const { type } = schema;
  const types = Array.isArray(type) ? type : [type];
  return types.filter((one): one is string => typeof one === 'string' && one !== 'null');
}

function toField(name: string, schema: JsonObject, root: JsonObject, required: boolean): FormField {
  const { title, description, default: initial } = schema;
  const input = chooseInput(name, schema, root);
  return {
    name,
    label: typeof title === 'string' && title !== '' ? title : name,
    help: typeof description === 'string' ? description : '',
    required,
    input,
    // A required object starts as an outline of its required members.
    initial: initial !== undefined ? toText(initial, input) : required && input.kind === 'json' ? input.example : '',
  };
}

function chooseInput(name: string, schema: JsonObject, root: JsonObject): FieldInput {
  const options = schema['const'] === undefined ? schema['enum'] : [schema['const']];
  if (Array.isArray(options) && options.length > 0 && options.length <= 200) return { kind: 'choice', options };
  const types = schemaTypes(schema);
  if (types.length === 1) {
    if (types[0] === 'boolean') return { kind: 'choice', options: [true, false], texts: ['Yes', 'No'] };
    if (types[0] === 'integer' || types[0] === 'number') return numberInput(schema, types[0] === 'integer');
    if (types[0] === 'string') return textInput(name, schema);
  }
  return { kind: 'json', example: types.length === 1 ? JSON.stringify(buildOutline(schema, root), null, 2) : '' };
}

/** A minimal value for a schema, with empty required members. */
function buildOutline(schema: JsonObject, root: JsonObject, depth = 0): Json {
  const { const: fixed, default: initial, enum: choices } = schema;
  const given = initial ?? fixed ?? (Array.isArray(choices) ? choices[0] : undefined);
  if (given !== undefined) return given;
  switch (schemaTypes(schema)[0]) {
    case 'object': {
      const required = Array.isArray(schema['required']) && depth < 3 ? schema['required'] : [];
      const properties = asObject(schema['properties']);
      return Object.fromEntries(
        required
          .filter((name): name is string => typeof name === 'string')
          .map((name) => [name, buildOutline(dereference(asObject(properties[name]), root), root, depth + 1)]),
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
  const min = typeof minimum === 'number' ? minimum : undefined;
  return { kind: 'number', whole, min, max: typeof maximum === 'number' ? maximum : undefined };
}

function textInput(name: string, { maxLength, format, contentMediaType }: JsonObject): FieldInput {
  const isShort = typeof format === 'string' || (typeof maxLength === 'number' && maxLength <= LONG_LENGTH);
  return {
    kind: 'text',
    multiline: contentMediaType !== undefined || (LONG_TEXT.test(name) && !isShort),
    maxLength: typeof maxLength === 'number' ? maxLength : undefined,
  };
}

/** A value as the text of its control; `readValue` reads it back. */
export function toText(value: Json, input: FieldInput): string {
  if (input.kind === 'choice') return String(input.options.findIndex((option) => equal(option, value)));
  if (input.kind === 'json') return JSON.stringify(value, null, 2);
  if (Array.isArray(value) && (input.kind === 'words' || input.kind === 'checks')) return value.join(' ');
  return typeof value === 'string' ? value : JSON.stringify(value);
}

const equal = (a: Json, b: Json): boolean => JSON.stringify(a) === JSON.stringify(b);

export function asObject(value: Json | undefined): JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : {};
}

/** Texts of a form by field name. */
export type FormTexts = Readonly<Record<string, string>>;

/** Arguments to send, or the faults by field. The gateway validates them again. */
export type FormReading = { arguments: JsonObject } | { faults: Record<string, string> };

/** Texts of a new form. */
export function initialTexts(fields: readonly FormField[]): FormTexts {
  return Object.fromEntries(fields.map((field) => [field.name, field.initial]));
}

/** Texts for given arguments: of an example, or when switching back from JSON. */
export function textsFor(fields: readonly FormField[], args: JsonObject): FormTexts {
  return Object.fromEntries(
    fields.map(({ name, input }) => [name, args[name] === undefined ? '' : toText(args[name], input)]),
  );
}

/** Converts texts to arguments. Empty optional fields are left out. */
export function readForm(fields: readonly FormField[], texts: FormTexts): FormReading {
  const args: [string, Json][] = [];
  const faults: [string, string][] = [];
  for (const field of fields) {
    const text = texts[field.name] ?? '';
    const isEmpty = text.trim() === '';
    if (isEmpty && !field.required) continue;
    const read = isEmpty ? { fault: 'is required' } : readValue(field, text);
    if ('fault' in read) faults.push([field.name, read.fault]);
    else args.push([field.name, read.value]);
  }
  // Object.fromEntries, because a schema may name an argument `__proto__`.
  return faults.length > 0 ? { faults: Object.fromEntries(faults) } : { arguments: Object.fromEntries(args) };
}

/** Parses arguments entered as JSON. */
export function readJson(text: string): FormReading {
  try {
    const value = JSON.parse(text) as Json;
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return { arguments: asObject(value) };
    return { faults: { '': 'must be a JSON object' } };
  } catch (error) {
    return { faults: { '': `is not valid JSON: ${(error as Error).message}` } };
  }
}

function readValue({ input }: FormField, text: string): { value: Json } | { fault: string } {
  switch (input.kind) {
    case 'text':
      return { value: text };
    case 'words':
    case 'checks':
      return { value: text.split(/[\s,]+/).filter(Boolean) };
    case 'choice': {
      const option = input.options[Number(text)];
      return option === undefined ? { fault: 'is not one of the choices' } : { value: option };
    }
    case 'number': {
      const value = Number(text);
      if (!Number.isFinite(value)) return { fault: 'is not a number' };
      if (input.whole && !Number.isInteger(value)) return { fault: 'must be an integer' };
      if (input.whole && !Number.isSafeInteger(value)) return { fault: 'is too large to be exact' };
      if (input.min !== undefined && value < input.min) return { fault: `must be at least ${input.min}` };
      if (input.max !== undefined && value > input.max) return { fault: `must be at most ${input.max}` };
      return { value };
    }
    case 'json':
      try {
        return { value: JSON.parse(text) as Json };
      } catch (error) {
        return { fault: `is not valid JSON: ${(error as Error).message}` };
      }
  }
}
