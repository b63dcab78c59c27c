/** Reads schemas for the texts about tools in Python and TypeScript. */
import { isJsonObject, type Json, type JsonObject } from '@toolfleet/contracts';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { referenceTarget } from '@toolfleet/bounded-schema';

/** Maximum number of nodes visited for one tool: a schema may be a bomb of references. */
export const MAX_NODES = 2_000;

/** One property of an object schema. */
export interface StubField {
  name: string;
  schema: Json | undefined;
  required: boolean;
}

/** The schema of the result of a call; none if the tool has a `select` setting. */
export const outputOf = ({ output_schema: output, select }: RegisteredTool): JsonObject | undefined =>
  select === undefined ? output : undefined;

/** Properties of a schema, `$ref` and `allOf` included, required ones first. */
export function readFields(root: JsonObject, schema: JsonObject): StubField[] {
  const properties = new Map<string, Json>();
  const required = new Set<Json>();
  const visited = new Set<JsonObject>();
  const gather = (node: Json | undefined): void => {
    if (!isJsonObject(node) || visited.has(node) || visited.size >= MAX_NODES) return;
    visited.add(node);
    gather(referenceTarget(root, node));
    if (Array.isArray(node.allOf)) for (const part of node.allOf) gather(part);
    if (isJsonObject(node.properties))
      for (const [name, one] of Object.entries(node.properties)) properties.set(name, one);
    if (Array.isArray(node.required)) for (const name of node.required) required.add(name);
  };
  gather(schema);
  const fields = [...properties].map(([name, one]) => ({ name, schema: one, required: required.has(name) }));
  return fields.toSorted((a, b) => Number(b.required) - Number(a.required));
}

/** Makes names of types unique within one text. */
export class TypeNames {
  private readonly used: Set<string>;

  /** @param reserved names that no type may have */
  constructor(reserved: Iterable<string>) {
    this.used = new Set(reserved);
  }

  /** A name from any text: `crm-find order` becomes `CrmFindOrder`. */
  take(text: string): string {
    const words = text.match(/[A-Za-z0-9]+/g) ?? ['Type'];
    const joined = words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join('');
    const base = (/^\d/.test(joined) ? `T${joined}` : joined).slice(0, 60);
    let name = base;
    for (let n = 2; this.used.has(name); n += 1) name = `${base}${n}`;
    this.used.add(name);
    return name;
  }
}

/** The description of a schema as one line; empty for none. */
export const descriptionOf = (schema: Json | undefined): string =>
  plainText(isJsonObject(schema) && typeof schema.description === 'string' ? schema.description : '');

/** One line without control characters and halves of surrogate pairs, forbidden in Python source. */
export const plainText = (text: string): string =>
  text
    .toWellFormed()
    .replaceAll(/[\s\p{Cc}]+/gu, ' ')
    .trim();
