import { isJsonObject, type Json, type JsonObject } from '@toolfleet/contracts';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { referenceTarget } from '@toolfleet/bounded-schema';
import {
  descriptionOf,
  MAX_NODES,
  outputOf,
  plainText,
  readFields,
  TypeNames,
  type StubField,
} from './schema-fields.js';

/** Values of an enumeration, and members of a union; longer ones are shown as `unknown` or the type of their values. */
const MAX_VARIANTS = 40;
/** Maximum number of nested types. */
const MAX_DEPTH = 16;
const SCALARS: Readonly<Record<string, string>> = {
  string: 'string',
  integer: 'number',
  number: 'number',
  boolean: 'boolean',
  null: 'null',
};
const HEAD = '// Types of tools, for `new ToolfleetClient<Tools>(…)` of @toolfleet/client.';

/**
 * The arguments and outputs of tools as TypeScript: an interface `Tools` with a member for each tool, and a type for each schema that
 * others refer to. Own code, because the packages that do this resolve references to files and URLs in untrusted schemas,
 * and do not bound their work.
 * @param tools as their caller may see them
 */
export function toolTypes(tools: readonly RegisteredTool[]): string {
  const names = new TypeNames(['Tools']);
  const declarations: string[] = [];
  const members = tools.map((tool) => {
    const types = new TypescriptTypes(names, tool.name);
    const output = outputOf(tool);
    const shape = [
      `arguments: ${types.typeOf(tool.input_schema, tool.input_schema)};`,
      `output: ${output ? types.typeOf(output, output) : 'unknown'};`,
    ];
    declarations.push(...types.declarations);
    return `${comment(plainText(tool.description))}${key(tool.name)}: ${block(shape)};`;
  });
  return `${[HEAD, ...declarations, `export interface Tools ${block(members)}`].join('\n\n')}\n`;
}

/** TypeScript types of the schemas of one tool. Inexpressible schemas become `unknown`. */
class TypescriptTypes {
  /** Types that others refer to. */
  readonly declarations: string[] = [];
  private readonly named = new Map<JsonObject, string>();
  /** Referred schemas that are being written, without an object or array since: a type alias cannot be its own member. */
  private open = new Set<JsonObject>();
  private depth = 0;
  private nodes = 0;

  constructor(
    private readonly names: TypeNames,
    private readonly tool: string,
  ) {}

  /** The type of a schema inside the document `root`. */
  typeOf(root: JsonObject, schema: Json | undefined): string {
    this.nodes += 1;
    if (schema === false) return 'never';
    if (!isJsonObject(schema) || this.depth >= MAX_DEPTH || this.nodes > MAX_NODES) return 'unknown';
    this.depth += 1;
    try {
      const type = typeof schema.$ref === 'string' ? this.referred(root, schema) : this.describe(root, schema);
      return schema.nullable === true ? union([type, 'null']) : type;
    } finally {
      this.depth -= 1;
    }
  }

  private referred(root: JsonObject, schema: JsonObject): string {
    const target = referenceTarget(root, schema);
    if (!isJsonObject(target) || this.open.has(target)) return 'unknown';
    const known = this.named.get(target);
    if (known !== undefined) return known;
    const name = this.names.take(`${this.tool} ${String(schema.$ref).split('/').at(-1)}`);
    this.named.set(target, name);
    this.open.add(target);
    const type = this.typeOf(root, target);
    this.open.delete(target);
    this.declarations.push(`export type ${name} = ${type};`);
    return name;
  }

  private describe(root: JsonObject, schema: JsonObject): string {
    if (schema.const !== undefined) return literals([schema.const]);
    if (Array.isArray(schema.enum)) return literals(schema.enum);
    const variants = schema.anyOf ?? schema.oneOf;
    const kinds = Array.isArray(schema.type) ? schema.type : [schema.type];
    const own = union(kinds.map((kind) => this.ofKind(root, schema, kind)));
    if (!Array.isArray(variants)) return own;
    if (variants.length > MAX_VARIANTS) return own;
    const chosen = union(variants.map((variant) => this.typeOf(root, variant)));
    // Each variant is also of the schema around it.
    return own === 'unknown' ? chosen : chosen === 'unknown' ? own : `${grouped(own)} & ${grouped(chosen)}`;
  }

  private ofKind(root: JsonObject, schema: JsonObject, kind: Json | undefined): string {
    const fields = kind === undefined || kind === 'object' ? readFields(root, schema) : [];
    if (fields.length > 0 || kind === 'object') return this.nested(() => this.objectOf(root, schema, fields));
    if (kind === 'array' || (kind === undefined && (schema.items !== undefined || schema.prefixItems !== undefined)))
      return this.nested(() => this.arrayOf(root, schema));
    if (kind === undefined && Array.isArray(schema.allOf)) {
      const parts = schema.allOf.map((part) => this.typeOf(root, part)).filter((type) => type !== 'unknown');
      return parts.length === 0 ? 'unknown' : parts.map(grouped).join(' & ');
    }
    return SCALARS[String(kind)] ?? 'unknown';
  }

  private objectOf(root: JsonObject, schema: JsonObject, fields: readonly StubField[]): string {
    const { additionalProperties: more } = schema;
    const members = fields.map(
      ({ name, schema: one, required }) =>
        `${comment(descriptionOf(one))}${key(name)}${required ? '' : '?'}: ${this.typeOf(root, one)};`,
    );
    if (members.length === 0) return more === false ? '{}' : `{ [key: string]: ${this.typeOf(root, more)} }`;
    if (more === true || isJsonObject(more)) members.push('[key: string]: unknown;');
    return block(members);
  }

  private arrayOf(root: JsonObject, schema: JsonObject): string {
    if (!Array.isArray(schema.prefixItems)) return `${grouped(this.typeOf(root, schema.items))}[]`;
    const rest = schema.items === false ? [] : [`...${grouped(this.typeOf(root, schema.items))}[]`];
    // JSON Schema asks for none of the first items.
    return `[${[...schema.prefixItems.map((one) => `${grouped(this.typeOf(root, one))}?`), ...rest].join(', ')}]`;
  }

  private nested(write: () => string): string {
    const { open } = this;
    this.open = new Set();
    try {
      return write();
    } finally {
      this.open = open;
    }
  }
}

/** A comment of a line on a line before its subject; empty for none. */
const comment = (line: string): string => (line === '' ? '' : `/** ${line.replaceAll('*/', '* /')} */\n`);

const block = (members: readonly string[]): string =>
  members.length === 0 ? '{}' : `{\n${members.join('\n').replaceAll(/^(?=.)/gm, '  ')}\n}`;

const key = (name: string): string => (/^[A-Za-z_$][\w$]*$/.test(name) ? name : JSON.stringify(name));

const grouped = (type: string): string => (/ [|&] /.test(type) && !/^[[{(]/.test(type) ? `(${type})` : type);

function union(types: readonly string[]): string {
  if (types.length === 0 || types.includes('unknown')) return 'unknown';
  return [...new Set(types)].join(' | ');
}

function literals(values: readonly Json[]): string {
  if (values.length > MAX_VARIANTS || values.some((value) => typeof value === 'object' && value !== null))
    return union(
      values.map((value) => (typeof value === 'object' ? (value === null ? 'null' : 'unknown') : typeof value)),
    );
  return union(values.map((value) => JSON.stringify(value)));
}
