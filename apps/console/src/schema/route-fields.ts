import type { Json, JsonObject, ToolCallError } from '@toolfleet/client';
import { asObject, toFields, toText, type FieldInput, type FormField, type FormTexts } from './form.js';

/** How a form shows a member of a body; the rest is as its schema says. */
interface MemberOptions {
  /** Default: the name as words. */
  label?: string;
  /** Default: the description of the member; `''` for none. */
  help?: string;
  placeholder?: string;
  /** Required here, although the route has a default for it. */
  required?: boolean;
  /** Choices with their names; they replace the choices of the schema. */
  choices?: readonly (readonly [value: Json, text: string])[];
  /** Name of the choice of no value. */
  unset?: string;
  initial?: Json;
  /** The text is not shown. */
  secret?: boolean;
}

/** Members of a form in their order; `false`: not for this caller. */
export type MemberTable<Name extends string> = Readonly<Partial<Record<Name, MemberOptions | false>>>;

/**
 * The fields of some members of a body.
 * @throws Error for a name that the schema does not have
 */
export function toRouteFields(schema: JsonObject, members: MemberTable<string>): FormField[] {
  const properties = asObject(schema['properties']);
  const known = new Map(toFields(schema).map((field) => [field.name, field]));
  return Object.entries(members).flatMap(([name, options]) => {
    if (!options) return [];
    const field = known.get(name);
    if (!field) throw new Error(`the body has no member ${name}`);
    const input = chooseInput(field.input, asObject(properties[name]), options);
    return {
      ...field,
      label: options.label ?? toLabel(name),
      help: options.help ?? field.help,
      required: options.required ?? field.required,
      placeholder: options.placeholder,
      unset: options.unset,
      input,
      initial: options.initial === undefined ? '' : toText(options.initial, input),
    };
  });
}

/** `expires_in_seconds` → `Expires in seconds`, `tenant_id` → `Tenant`. */
function toLabel(name: string): string {
  const words = name.replace(/_id$/, '').replaceAll('_', ' ');
  return words.charAt(0).toUpperCase() + words.slice(1);
}

function chooseInput(input: FieldInput, schema: JsonObject, { choices, secret }: MemberOptions): FieldInput {
  if (choices)
    return { kind: 'choice', options: choices.map(([value]) => value), texts: choices.map(([, text]) => text) };
  if (input.kind === 'text') return { ...input, secret };
  const items = asObject(schema['items']);
  if (Array.isArray(items['enum'])) return { kind: 'checks', options: items['enum'].map(String) };
  return items['type'] === 'string' ? { kind: 'words' } : input;
}

/** The fields of a form that a refusal names, with what to say of them. A member inside a field (`kinds[2]`) counts as the field. */
export function refusedFields(error: ToolCallError | undefined, fields: readonly FormField[]): FormTexts {
  const named = error?.details?.['fields'];
  if (!Array.isArray(named)) return {};
  const outer = new Set(named.map((path) => /^(?:body\.)?(\w*)/.exec(String(path))?.[1]));
  return Object.fromEntries(fields.flatMap(({ name }) => (outer.has(name) ? [[name, 'was refused']] : [])));
}
