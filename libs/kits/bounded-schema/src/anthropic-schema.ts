import { hash } from 'node:crypto';
import { isJsonObject, type Json, type JsonObject } from '@toolfleet/base';
import { mergeAll } from './merge-all.js';
import { decodeFragment, IN_PLACE_LISTS, schemaAt } from './subschemas.js';

/** Names of arguments that Anthropic's API accepts (its errors name the pattern); one other name makes it refuse all tools of a request. */
const PLAIN = /^[a-zA-Z0-9_.-]{1,64}$/;

/** The name under which an argument is listed where names must be plain. It depends on the name alone, so that calls can be read by it. */
export function plainName(name: string): string {
  if (PLAIN.test(name)) return name;
  return `${name.replaceAll(/[^a-zA-Z0-9_.-]+/g, '_').slice(0, 55)}_${hash('sha256', name, 'hex').slice(0, 8)}`;
}

/**
 * An object schema as Anthropic's API accepts it: with plain names of arguments, and without `allOf`, `anyOf` or `oneOf` at the top. A union
 * there becomes one object with the properties of all branches; what each branch requires is in the description. Check each call against
 * the whole schema.
 */
export function toAnthropicSchema(schema: JsonObject): JsonObject {
  return withPlainNames(new UnionMerge(schema).merge(schema));
}

/** An object schema with plain names of arguments (`plainName`); the same one if it has no others. */
export function withPlainNames(schema: JsonObject): JsonObject {
  const { properties, required } = schema;
  if (!isJsonObject(properties) || Object.keys(properties).every((name) => PLAIN.test(name))) return schema;
  const shown = Object.entries(properties).map(([name, own]): [string, Json] => {
    if (PLAIN.test(name) || !isJsonObject(own)) return [plainName(name), own];
    return [plainName(name), { ...own, description: [name, own.description].filter(Boolean).join(': ') }];
  });
  const listed: JsonObject = { ...schema, properties: Object.fromEntries(shown) };
  if (Array.isArray(required)) listed.required = required.map((name) => plainName(String(name)));
  return listed;
}

/** Merges unions and parts of the levels of one schema, each level once: levels may refer to one another, and to themselves. */
class UnionMerge {
  readonly #merged = new Map<JsonObject, JsonObject>();

  constructor(private readonly root: JsonObject) {}

  /** @returns the schema itself where it has none */
  merge(schema: Json): JsonObject {
    if (!isJsonObject(schema)) return {};
    const known = this.#merged.get(schema);
    if (known) return known;
    this.#merged.set(schema, {});
    const merged = this.#mergeNode(this.#resolve(schema));
    this.#merged.set(schema, merged);
    return merged;
  }

  #mergeNode(node: JsonObject): JsonObject {
    if (!IN_PLACE_LISTS.some((keyword) => node[keyword] !== undefined)) return node;
    const { allOf, anyOf, oneOf, ...own } = node;
    const partsOf = (parts: Json | undefined) => (Array.isArray(parts) ? parts.map((part) => this.merge(part)) : []);
    const whole = mergeAll({ ...own, allOf: partsOf(allOf) });
    const branches = [...partsOf(anyOf), ...partsOf(oneOf)];
    return branches.length === 0 ? whole : mergeBranches(whole, branches);
  }

  /** The schema with what it refers to in its place; a reference to itself is left out. */
  #resolve(schema: JsonObject): JsonObject {
    const { $ref: ref, ...own } = schema;
    if (typeof ref !== 'string' || !ref.startsWith('#')) return schema;
    return { ...this.merge(schemaAt(this.root, decodeFragment(ref)) ?? {}), ...own };
  }
}

function mergeBranches(whole: JsonObject, branches: readonly JsonObject[]): JsonObject {
  const properties = new Map<string, Json>();
  for (const part of [whole, ...branches])
    for (const [name, given] of Object.entries(part.properties ?? {})) {
      const known = properties.get(name);
      properties.set(name, known === undefined || isSame(known, given) ? given : { anyOf: [known, given] });
    }
  const forms = branches.map(({ required }) => (Array.isArray(required) ? required : []));
  const common = forms[0]!.filter((name) => forms.every((form) => form.includes(name)));
  const required = [...new Set([...(Array.isArray(whole.required) ? whole.required : []), ...common])];
  const choices = [...new Set(forms.map((form) => form.filter((name) => !required.includes(name)).join(', ')))];
  const choice = choices.every((form) => form !== '') && `Requires one of: ${choices.join('; ')}`;
  const merged: JsonObject = { ...whole, type: 'object', properties: Object.fromEntries(properties) };
  if (required.length > 0) merged.required = required;
  if (choice) merged.description = [whole.description, choice].filter(Boolean).join('. ');
  return merged;
}

const isSame = (one: Json, other: Json): boolean => JSON.stringify(one) === JSON.stringify(other);
