import { isJsonObject, type Json, type JsonObject } from '@toolfleet/base';
import type { Findings } from '../findings.js';
import { toPointer, pointerTokens, setOwn } from '../json-pointer.js';
import type { SpecDocument } from '../load/parse-spec.js';
import type { Located, RefResolver } from '../load/references.js';
import { DefinitionNames } from './naming.js';
import { areExclusive, describeMapping } from './exclusive-branches.js';
import { applyExclusiveFlags, applyNullable, dropForeignDefault, matchEnumToType } from './dialect-30.js';
import { ecmaPattern, holdsReference, plainKeyword } from './repair-keywords.js';

/** A schema of JSON Schema 2020-12. */
type JsonSchema = JsonObject | boolean;

/** Requests omit read-only properties, responses write-only ones. */
type Direction = 'request' | 'response';

/**
 * A reference that applies to the same value as the schema that holds it (`$ref`, `allOf`, `oneOf` …, not below
 * `properties` or `items`). A validator recurses without end in a cycle of them; `break-cycles.ts` breaks those.
 */
export interface InPlaceEdge {
  target: string;
  /** `and`: a plain `$ref` or a member of `allOf`; `or`: a branch of anyOf, oneOf, if, not and the like. */
  kind: 'and' | 'or';
  /** The schema object that carries `$ref`. */
  holder: JsonObject;
}

/** The schema as an object, for places where a tool needs one. */
export const toObject = (schema: JsonSchema): JsonObject =>
  typeof schema === 'boolean' ? (schema ? {} : { not: {} }) : schema;

/** A converted schema with the local targets it refers to. */
export interface Definition {
  schema: JsonSchema;
  /** Canonical pointers of the targets. */
  targets: Set<string>;
  edges: InPlaceEdge[];
}

/** Position of a schema within the definition that is being converted. */
interface SchemaLocation {
  /** Kind of in-place reference here; undefined below properties and items. */
  edge?: InPlaceEdge['kind'];
  /** Names of read-only properties of the enclosing `allOf`. */
  hidden?: ReadonlySet<string>;
}

const ROOT: SchemaLocation = { edge: 'and' };
const BRANCH: SchemaLocation = { edge: 'or' };
const BELOW: SchemaLocation = {};
/** Maximum number of `allOf` members, nested ones included, searched for read-only properties. */
const MAX_BASES = 200;

/** Keywords that hold schemas, by the way they hold them. */
const HOLDERS: ReadonlyMap<string, 'properties' | 'items' | 'list' | 'branch' | 'single' | 'map'> = new Map([
  ['properties', 'properties'],
  ['patternProperties', 'properties'],
  ['items', 'items'],
  ['prefixItems', 'items'],
  ['allOf', 'list'],
  ['anyOf', 'list'],
  ['oneOf', 'list'],
  ['not', 'branch'],
  ['if', 'branch'],
  ['then', 'branch'],
  ['else', 'branch'],
  ['additionalProperties', 'single'],
  ['contains', 'single'],
  ['propertyNames', 'single'],
  ['unevaluatedItems', 'single'],
  ['unevaluatedProperties', 'single'],
  ['contentSchema', 'single'],
  ['dependentSchemas', 'map'],
]);

/** Converts schemas of a document to JSON Schema 2020-12. Each shared schema is converted once. */
export class SchemaConverter {
  private readonly definitions = new Map<string, Definition>();
  private readonly findings: Findings;
  private readonly is30: boolean;
  /** Position of the walk; it becomes a pointer only when there is something to report. */
  private origin = '';
  private trail: (string | number)[] = [];

  constructor(
    document: SpecDocument,
    private readonly refs: RefResolver,
    readonly names: DefinitionNames,
    readonly direction: Direction,
    private readonly acceptsPattern: (pattern: string) => boolean = () => true,
  ) {
    this.findings = document.findings;
    this.is30 = document.dialect === '3.0';
  }

  /** Converts the schema at a pointer; its references are collected with it. */
  convert(schema: Json | undefined, at: string): Definition {
    const found: Definition = { schema: true, targets: new Set(), edges: [] };
    this.origin = at;
    this.trail = [];
    found.schema = this.schema(schema, found, ROOT);
    return found;
  }

  /** The converted target of a reference, by canonical pointer. */
  definition(pointer: string): Definition {
    let definition = this.definitions.get(pointer);
    if (!definition) {
      definition = this.convert(this.refs.locate(`#${pointer}`)?.node, pointer);
      this.definitions.set(pointer, definition);
    }
    return definition;
  }

  /** Adds or replaces a definition under a key of its own (variants made while cycles are broken). */
  define(key: string, definition: Definition): void {
    this.definitions.set(key, definition);
  }

  /** Adds a warning for the current position, or for a member of it. */
  private warn(message: string, member?: string): void {
    const tokens = member === undefined ? this.trail : [...this.trail, member];
    this.findings.warn(this.origin + toPointer(tokens.map(String)), message);
  }

  /** Converts a member of the current position. */
  private below(
    token: string | number,
    schema: Json | undefined,
    found: Definition,
    place: SchemaLocation,
  ): JsonSchema {
    this.trail.push(token);
    const converted = this.schema(schema, found, place);
    this.trail.pop();
    return converted;
  }

  private schema(schema: Json | undefined, found: Definition, place: SchemaLocation): JsonSchema {
    if (typeof schema === 'boolean') return schema;
    if (!isJsonObject(schema)) {
      if (schema !== undefined && schema !== null) this.warn('not a schema: any value is accepted here');
      return {};
    }
    const reference = typeof schema.$ref === 'string' ? schema.$ref : schema.$dynamicRef;
    if (typeof reference === 'string') return this.reference(schema, reference, found, place);
    return this.keywords(schema, found, place);
  }

  private reference(schema: JsonObject, ref: string, found: Definition, place: SchemaLocation): JsonSchema {
    const located = ref.startsWith('#') ? (this.refs.locate(ref) ?? this.locateNearby(ref)) : undefined;
    const out: JsonObject = {};
    if (located) {
      out.$ref = `#/$defs/${this.names.get(located.pointer)}`;
      found.targets.add(located.pointer);
      if (place.edge) found.edges.push({ target: located.pointer, kind: place.edge, holder: out });
    } else {
      const shown = JSON.stringify(ref.slice(0, 200));
      this.warn(`the reference ${shown} leads nowhere: any value is accepted here`, '$ref');
    }
    if (this.is30) {
      if (typeof schema.description === 'string') out.description = schema.description;
      return out;
    }
    const { $ref: _ref, $dynamicRef: _dynamic, ...siblings } = schema;
    if (Object.keys(siblings).length === 0) return out;
    const beside = this.keywords(siblings, found, place);
    if (!isJsonObject(beside)) return out;
    const merged: JsonObject = { ...out, ...beside };
    for (const edge of found.edges) if (edge.holder === out) edge.holder = merged;
    return merged;
  }

  /**
   * `#/$defs/X` means the root of the document, or of the schema that has an `$id`. Documents that paste schemas mean the
   * nearest schema around that has such a member: tried when the right reading finds nothing.
   */
  private locateNearby(ref: string): Located | undefined {
    if (!/^#\/(?:\$defs|definitions)\//.test(ref)) return undefined;
    const tokens = [...pointerTokens(this.origin), ...this.trail.map(String)];
    for (let length = tokens.length; length > 0; length -= 1) {
      const located = this.refs.locate(`#${toPointer(tokens.slice(0, length))}${ref.slice(1)}`);
      if (located) return located;
    }
    return undefined;
  }

  private keywords(schema: JsonObject, found: Definition, place: SchemaLocation): JsonSchema {
    const out: JsonObject = {};
    const hidden = this.hiddenNames(schema, place);
    const here: SchemaLocation = hidden === place.hidden ? place : { ...place, hidden };
    for (const keyword in schema) {
      const value = schema[keyword] as Json;
      this.trail.push(keyword);
      const converted = this.keyword(keyword, value, found, here);
      this.trail.pop();
      if (converted === undefined) continue;
      out[keyword === 'items' && Array.isArray(value) ? 'prefixItems' : keyword] = converted;
    }
    if (hidden && Array.isArray(out.required)) {
      const required = out.required.filter((name) => !hidden.has(name as string));
      if (required.length > 0) out.required = required;
      else delete out.required;
    }
    if (schema.example !== undefined && out.examples === undefined && !holdsReference(schema.example)) {
      out.examples = [schema.example];
    }
    if (schema.exclusiveMinimum !== undefined || schema.exclusiveMaximum !== undefined)
      applyExclusiveFlags(schema, out);
    if (out.enum !== undefined) matchEnumToType(out, (message) => this.warn(message, 'enum'));
    if (out.default !== undefined) dropForeignDefault(out, (message) => this.warn(message, 'default'));
    if (out.oneOf !== undefined) this.relaxAlternatives(schema, out);
    if (schema.discriminator !== undefined) describeMapping(schema.discriminator, out);
    return schema.nullable === true ? applyNullable(schema, out) : out;
  }

  /**
   * Replaces `oneOf` with `anyOf` where its branches overlap. Requests only: responses are never validated, so the schema of the
   * document describes them best.
   */
  private relaxAlternatives(schema: JsonObject, out: JsonObject): void {
    if (this.direction !== 'request' || !Array.isArray(out.oneOf) || !Array.isArray(schema.oneOf)) return;
    if (areExclusive(schema.oneOf, (branch) => this.refs.nodeOf(branch))) return;
    const branches: JsonObject = { anyOf: out.oneOf };
    delete out.oneOf;
    if (out.anyOf === undefined) out.anyOf = branches.anyOf as Json;
    else out.allOf = [...(Array.isArray(out.allOf) ? out.allOf : []), branches];
  }

  private keyword(keyword: string, value: Json, found: Definition, place: SchemaLocation): Json | undefined {
    switch (HOLDERS.get(keyword)) {
      case 'properties':
        return this.propertyMap(keyword, value, found, place);
      case 'items':
        return this.items(value, found);
      case 'list':
        return this.list(keyword, value, found, place);
      case 'branch':
        return this.single(value, found, place.edge ? BRANCH : BELOW);
      case 'single':
        return this.single(value, found, BELOW);
      case 'map':
        return this.schemaMap(value, found, place.edge ? BRANCH : BELOW);
      default:
    }
    if (keyword === 'pattern' && typeof value === 'string' && this.pattern(value) === null) {
      this.warn(`the pattern ${JSON.stringify(value.slice(0, 120))} cannot be checked and is dropped`);
      return undefined;
    }
    return plainKeyword(keyword, value, (message) => this.warn(message));
  }

  /** Converts a pattern to ECMA-262; null when it is invalid or the validator of arguments rejects it. */
  private pattern(source: string): string | null {
    const pattern = ecmaPattern(source);
    return pattern !== null && this.acceptsPattern(pattern) ? pattern : null;
  }

  private single(value: Json, found: Definition, place: SchemaLocation): Json | undefined {
    return typeof value === 'boolean' || isJsonObject(value) ? this.schema(value, found, place) : undefined;
  }

  private items(value: Json, found: Definition): Json | undefined {
    if (!Array.isArray(value)) return this.single(value, found, BELOW);
    return value.length === 0 ? undefined : value.map((item, index) => this.below(index, item, found, BELOW));
  }

  private list(keyword: string, value: Json, found: Definition, place: SchemaLocation): Json | undefined {
    if (!Array.isArray(value)) return undefined;
    const isAll = keyword === 'allOf';
    const inner: SchemaLocation = {
      edge: place.edge && (isAll ? place.edge : 'or'),
      hidden: isAll ? place.hidden : undefined,
    };
    const members: Json[] = [];
    for (const [index, member] of value.entries()) {
      if (typeof member === 'boolean' || isJsonObject(member)) members.push(this.below(index, member, found, inner));
    }
    return members.length > 0 ? members : undefined;
  }

  private schemaMap(value: Json, found: Definition, place: SchemaLocation): Json | undefined {
    if (!isJsonObject(value)) return undefined;
    const out: JsonObject = {};
    for (const name of Object.keys(value)) setOwn(out, name, this.below(name, value[name], found, place));
    return out;
  }

  private propertyMap(keyword: string, value: Json, found: Definition, place: SchemaLocation): Json | undefined {
    if (!isJsonObject(value)) return undefined;
    const out: JsonObject = {};
    const isPlain = keyword === 'properties';
    for (const name of Object.keys(value)) {
      if (isPlain && place.hidden?.has(name) && this.isHidden(value[name])) continue;
      const key = isPlain ? name : this.pattern(name);
      if (key === null) this.warn(`the pattern ${JSON.stringify(name.slice(0, 120))} cannot be checked and is dropped`);
      else setOwn(out, key, this.below(name, value[name], found, BELOW));
    }
    return out;
  }

  /** Names of properties omitted in this direction, also of other members of an `allOf`. */
  private hiddenNames(schema: JsonObject, place: SchemaLocation): ReadonlySet<string> | undefined {
    if (!schema.properties && !schema.allOf) return place.hidden;
    const names = new Set(place.hidden);
    this.collectHidden(schema, names, new Set());
    return names.size > 0 ? names : undefined;
  }

  private collectHidden(schema: JsonObject, names: Set<string>, seen: Set<JsonObject>): void {
    if (seen.has(schema) || seen.size > MAX_BASES) return;
    seen.add(schema);
    const { properties } = schema;
    if (isJsonObject(properties)) {
      for (const name in properties) if (this.isHidden(properties[name])) names.add(name);
    }
    if (!Array.isArray(schema.allOf)) return;
    for (const member of schema.allOf) {
      const node = this.refs.nodeOf(member);
      if (node) this.collectHidden(node, names, seen);
    }
  }

  private isHidden(property: Json | undefined): boolean {
    if (!isJsonObject(property)) return false;
    return this.direction === 'request' ? property.readOnly === true : property.writeOnly === true;
  }
}
