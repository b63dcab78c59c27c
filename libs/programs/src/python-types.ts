import { isJsonObject, type Json, type JsonObject } from '@toolfleet/contracts';
import { referenceTarget } from '@toolfleet/bounded-schema';
import { descriptionOf, MAX_NODES, readFields, type StubField, type TypeNames } from './schema-fields.js';

const SCALARS: Readonly<Record<string, string>> = {
  string: 'str',
  integer: 'int',
  number: 'float',
  boolean: 'bool',
  null: 'None',
};
const KEYWORDS = new Set(
  'False None True and as assert async await break class continue def del elif else except finally for from global if import in is lambda nonlocal not or pass raise return try while with yield'.split(
    ' ',
  ),
);
/** Names that annotations use: a member of this name in a class would hide the type from the lines after it. */
const TYPE_NAMES = new Set(['str', 'int', 'float', 'bool', 'list', 'dict']);
/** Values of an enumeration; longer enumerations are shown as the type of their values. */
const MAX_LITERALS = 40;
/** Characters of one annotation of literals. */
const MAX_LITERALS_LENGTH = 800;
/** Members of a union. */
const MAX_VARIANTS = 8;
/** Maximum number of nested containers without a name. */
const MAX_DEPTH = 16;
/** TypedDicts of one tool; further objects are plain dictionaries. */
const MAX_CLASSES = 40;
/** Characters of a comment next to a field. */
const MAX_COMMENT = 100;
/** Maximum length of a default value that is shown. */
const MAX_DEFAULT = 60;

/** Whether a name can be a parameter or the key of a class: ASCII, because Python normalizes other letters, and not mangled. */
export const isIdentifier = (name: string): boolean =>
  /^[A-Za-z_][A-Za-z0-9_]*$/.test(name) && !name.startsWith('__') && !KEYWORDS.has(name);

/** Whether a name can be a member of a class without hiding a type. */
export const isMemberName = (name: string): boolean => isIdentifier(name) && !TYPE_NAMES.has(name);

/** A member of a class, with its annotation and the comment behind it. */
export interface Member extends StubField {
  type: string;
  comment: string;
}
/** Writes the class of an object with these members. */
export type ClassWriter = (name: string, members: readonly Member[]) => string;

/**
 * Python types of the schemas of one tool. An object with properties becomes a class, also where schemas refer to
 * themselves; without `names` it is a `dict`, for a signature of one line. Types that Python cannot express become `Any`.
 */
export class PythonTypes {
  /** Classes that the types need, in the order of their use. */
  readonly classes: string[] = [];
  private readonly named = new Map<JsonObject, string>();
  private readonly open = new Set<JsonObject>();
  private depth = 0;
  private nodes = 0;

  constructor(
    private readonly names?: TypeNames,
    private readonly write: ClassWriter = typedDict,
  ) {}

  /**
   * The annotation of a schema inside the document `root`.
   * @param hint for the name of its class
   */
  typeOf(root: JsonObject, schema: Json | undefined, hint: string): string {
    this.nodes += 1;
    if (!isJsonObject(schema) || this.depth >= MAX_DEPTH || this.nodes > MAX_NODES) return 'Any';
    // A definition that refers to itself without an object in between cannot be written as a type.
    if (this.open.has(schema)) return this.named.get(schema) ?? 'Any';
    this.open.add(schema);
    this.depth += 1;
    try {
      return this.describe(root, schema, hint);
    } finally {
      this.depth -= 1;
      this.open.delete(schema);
    }
  }

  /** Declares a class for fields. @returns its name */
  declare(root: JsonObject, fields: readonly StubField[], hint: string, schema?: JsonObject): string {
    const name = this.names!.take(hint);
    if (schema) this.named.set(schema, name);
    this.classes.push(this.write(name, this.membersOf(root, fields, hint)));
    return name;
  }

  /** Fields with their types. */
  membersOf(root: JsonObject, fields: readonly StubField[], hint: string): Member[] {
    return fields.map((field) => ({
      ...field,
      type: this.typeOf(root, field.schema, `${hint} ${field.name}`),
      comment: commentOf(field.schema),
    }));
  }

  private describe(root: JsonObject, schema: JsonObject, hint: string): string {
    if (typeof schema.$ref === 'string') {
      const target = referenceTarget(root, schema);
      return this.typeOf(
        root,
        target,
        `${hint.split(' ', 1)[0]} ${schema.$ref.slice(schema.$ref.lastIndexOf('/') + 1)}`,
      );
    }
    const type = this.describeValue(root, schema, hint);
    return schema.nullable === true ? union([type, 'None']) : type;
  }

  private describeValue(root: JsonObject, schema: JsonObject, hint: string): string {
    if (schema.const !== undefined) return literals([schema.const]);
    if (Array.isArray(schema.enum)) return literals(schema.enum);
    const fields = readFields(root, schema);
    if (fields.length === 0) {
      const variants = schema.anyOf ?? schema.oneOf;
      if (Array.isArray(variants)) return this.unionOf(root, variants, hint);
      const [part] = Array.isArray(schema.allOf) ? schema.allOf : [];
      if (part !== undefined && schema.type === undefined) return this.typeOf(root, part, hint);
    }
    if (!Array.isArray(schema.type)) return this.ofKind(root, schema, schema.type, fields, hint);
    return union(schema.type.map((kind) => this.ofKind(root, schema, kind, fields, hint)));
  }

  private unionOf(root: JsonObject, variants: readonly Json[], hint: string): string {
    if (variants.length > MAX_VARIANTS) return 'Any';
    return union(variants.map((variant) => this.typeOf(root, variant, hint)));
  }

  private ofKind(
    root: JsonObject,
    schema: JsonObject,
    kind: Json | undefined,
    fields: StubField[],
    hint: string,
  ): string {
    if (fields.length > 0 && (kind === undefined || kind === 'object')) {
      if (!this.names) return 'dict';
      const known = this.named.get(schema);
      if (known !== undefined) return known;
      return this.named.size < MAX_CLASSES ? this.declare(root, fields, hint, schema) : 'dict[str, Any]';
    }
    if (kind === 'object') {
      if (!this.names) return 'dict';
      return `dict[str, ${this.typeOf(root, schema.additionalProperties, `${hint} value`)}]`;
    }
    if (kind === 'array' || (kind === undefined && isJsonObject(schema.items))) {
      if (!Array.isArray(schema.prefixItems)) return `list[${this.typeOf(root, schema.items, `${hint} item`)}]`;
      return `list[${this.unionOf(root, schema.prefixItems, `${hint} item`)}]`;
    }
    return SCALARS[String(kind)] ?? 'Any';
  }
}

function typedDict(name: string, members: readonly Member[]): string {
  const typed = members.map((one) => ({ ...one, type: one.required ? one.type : `NotRequired[${one.type}]` }));
  if (typed.every((one) => isMemberName(one.name))) {
    const lines = typed.map((one) => `    ${one.name}: ${one.type}${one.comment}`);
    return `class ${name}(TypedDict):\n${lines.join('\n')}`;
  }
  const lines = typed.map((one) => `    ${JSON.stringify(one.name)}: ${one.type},${one.comment}`);
  return `${name} = TypedDict("${name}", {\n${lines.join('\n')}\n})`;
}

/** JSON as Python writes it; undefined for values that are too long to show. */
export function pythonLiteral(value: Json): string | undefined {
  const text = writeLiteral(value);
  return text.length <= MAX_DEFAULT ? text : undefined;
}

function writeLiteral(value: Json): string {
  if (value === null) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (Array.isArray(value)) return `[${value.map(writeLiteral).join(', ')}]`;
  if (typeof value !== 'object') return JSON.stringify(value);
  return `{${Object.entries(value)
    .map(([key, one]) => `${JSON.stringify(key)}: ${writeLiteral(one)}`)
    .join(', ')}}`;
}

/** The number of values of an enumeration that is too long for its annotation; undefined for others. */
export function longEnumeration(schema: Json | undefined): number | undefined {
  if (!isJsonObject(schema) || !Array.isArray(schema.enum) || literals(schema.enum).startsWith('Literal['))
    return undefined;
  return schema.enum.length;
}

/** Only strings, integers, booleans and None can be literals; a list of other values, or a long one, is shown by its types. */
function literals(values: readonly Json[]): string {
  const isLiteral = (value: Json): boolean =>
    value === null || typeof value === 'string' || typeof value === 'boolean' || Number.isSafeInteger(value);
  if (values.length > 0 && values.length <= MAX_LITERALS && values.every(isLiteral)) {
    const text = `Literal[${[...new Set(values.map(writeLiteral))].join(', ')}]`;
    if (text.length <= MAX_LITERALS_LENGTH) return text;
  }
  return union(values.map(kindOf));
}

function kindOf(value: Json): string {
  if (Array.isArray(value)) return 'list[Any]';
  if (typeof value === 'object') return value === null ? 'None' : 'dict[str, Any]';
  if (typeof value === 'number') return Number.isSafeInteger(value) ? 'int' : 'float';
  return SCALARS[typeof value]!;
}

/** Text that Python reads as a docstring: without quotes and escapes that would end it, and without characters that source cannot contain. */
export function docstring(text: string): string {
  const lines = text
    .toWellFormed()
    .replaceAll(/\r\n?/g, '\n')
    // oxlint-disable-next-line no-control-regex -- these characters are removed
    .replaceAll(/[\u0000-\u0008\u000b-\u001f\u007f]/g, ' ')
    .replaceAll('\\', '\\\\')
    .replaceAll(/"(?="|$)/g, '\\"');
  return `"""${lines}"""`;
}

/** Indents every line that has text. */
export const indent = (text: string): string => text.replaceAll(/^(?=.)/gm, '    ');

function union(types: readonly string[]): string {
  const distinct = [...new Set(types.flatMap((type) => (type === 'Any' ? [] : [type])))];
  return distinct.length === 0 || types.includes('Any') ? 'Any' : distinct.join(' | ');
}

function commentOf(schema: Json | undefined): string {
  const text = descriptionOf(schema);
  if (text === '') return '';
  return `  # ${text.length > MAX_COMMENT ? `${text.slice(0, MAX_COMMENT - 1).trimEnd()}…` : text}`;
}
