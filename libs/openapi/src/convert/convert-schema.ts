import { isJsonObject, type Json, type JsonObject } from '@toolfleet/contracts';
import type { Findings } from '../findings.js';
import { escapeToken, setOwn } from '../json-pointer.js';
import type { SpecDocument } from '../load/parse-spec.js';
import type { RefResolver } from '../load/resolve-refs.js';
import { DefinitionNames } from './definition-names.js';
import { areExclusive } from './exclusive-branches.js';
import { applyExclusiveFlags, applyNullable, dropForeignDefault, matchEnumToType } from './dialect-30.js';
import { ecmaPattern } from './pattern.js';
import { plainKeyword } from './repair-keywords.js';

/** A schema of JSON Schema 2020-12. */
export type JsonSchema = JsonObject | boolean;

/** What a schema is for: in requests read-only properties do not exist, in responses write-only ones do not. */
export type Direction = 'request' | 'response';

/**
 * A reference that applies to the same value as the schema that holds it (`$ref`, `allOf`, `oneOf` …, not below
 * `properties` or `items`). A ring of them never ends in a validator; `break-rings.ts` cuts those.
 */
export interface InPlaceEdge {
  target: string;
  /** `and`: a plain `$ref` or a member of `allOf`; `or`: a branch of anyOf, oneOf, if, not and the like. */
  kind: 'and' | 'or';
  /** The schema object that carries `$ref`. */
  holder: JsonObject;
}

/** A converted schema with the local targets it refers to. */
export interface Definition {
  schema: JsonSchema;
  /** Canonical pointers of the targets. */
  targets: Set<string>;
  edges: InPlaceEdge[];
}

/** Where a schema stands within the definition being converted. */
interface Place {
  /** Kind of in-place reference here; undefined below properties and items. */
  edge?: InPlaceEdge['kind'];
  /** Names of read-only properties of the enclosing `allOf`. */
  hidden?: ReadonlySet<string>;
}

const SINGLE: ReadonlySet<string> = new Set([
  'additionalProperties',
  'contains',
  'propertyNames',
  'unevaluatedItems',
  'unevaluatedProperties',
  'contentSchema',
]);
const SINGLE_IN_PLACE: ReadonlySet<string> = new Set(['not', 'if', 'then', 'else']);
const LISTS_IN_PLACE: ReadonlySet<string> = new Set(['allOf', 'anyOf', 'oneOf']);

/** Converts schemas of a document to JSON Schema 2020-12 (openapi.md section 5). Each shared schema is converted once. */
export class SchemaConverter {
  private readonly definitions = new Map<string, Definition>();
  private readonly findings: Findings;
  private readonly is30: boolean;

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

  /** Converts a schema that stands at the pointer; its references are collected beside it. */
  convert(schema: Json | undefined, at: string): Definition {
    const found: Definition = { schema: true, targets: new Set(), edges: [] };
    found.schema = this.schema(schema, at, found, { edge: 'and' });
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

  /** Adds or replaces a definition under a key of its own (variants made while rings are cut). */
  define(key: string, definition: Definition): void {
    this.definitions.set(key, definition);
  }

  private schema(schema: Json | undefined, at: string, found: Definition, place: Place): JsonSchema {
    if (typeof schema === 'boolean') return schema;
    if (!isJsonObject(schema)) {
      if (schema !== undefined && schema !== null) this.findings.warn(at, 'not a schema: any value is accepted here');
      return {};
    }
    const reference = typeof schema.$ref === 'string' ? schema.$ref : schema.$dynamicRef;
    if (typeof reference === 'string') return this.reference(schema, reference, at, found, place);
    return this.keywords(schema, at, found, place);
  }

  private reference(schema: JsonObject, ref: string, at: string, found: Definition, place: Place): JsonSchema {
    const located = ref.startsWith('#') ? this.refs.locate(ref) : undefined;
    const out: JsonObject = {};
    if (located) {
      out.$ref = `#/$defs/${this.names.nameOf(located.pointer)}`;
      found.targets.add(located.pointer);
      if (place.edge) found.edges.push({ target: located.pointer, kind: place.edge, holder: out });
    } else {
      this.findings.warn(
        `${at}/$ref`,
        `the reference ${JSON.stringify(ref.slice(0, 200))} leads nowhere: any value is accepted here`,
      );
    }
    if (this.is30) {
      if (typeof schema.description === 'string') out.description = schema.description;
      return out;
    }
    const { $ref: _ref, $dynamicRef: _dynamic, ...siblings } = schema;
    if (Object.keys(siblings).length === 0) return out;
    const beside = this.keywords(siblings, at, found, place);
    if (!isJsonObject(beside)) return out;
    const merged: JsonObject = { ...out, ...beside };
    for (const edge of found.edges) if (edge.holder === out) edge.holder = merged;
    return merged;
  }

  private keywords(schema: JsonObject, at: string, found: Definition, place: Place): JsonSchema {
    const out: JsonObject = {};
    const hidden = this.hiddenNames(schema, place);
    for (const keyword of Object.keys(schema)) {
      const value = schema[keyword] as Json;
      const here = `${at}/${escapeToken(keyword)}`;
      const converted = this.keyword(keyword, value, here, found, { ...place, hidden });
      if (converted !== undefined)
        setOwn(out, keyword === 'items' && Array.isArray(value) ? 'prefixItems' : keyword, converted);
    }
    if (hidden && Array.isArray(out.required)) {
      const required = out.required.filter((name) => !hidden.has(name as string));
      if (required.length > 0) out.required = required;
      else delete out.required;
    }
    if (out.examples === undefined && schema.example !== undefined) out.examples = [schema.example];
    // An example that talks about references would read as one to whoever walks the schema.
    if (out.examples !== undefined && JSON.stringify(out.examples).includes('"$ref"')) delete out.examples;
    applyExclusiveFlags(schema, out);
    matchEnumToType(out, (message) => this.findings.warn(`${at}/enum`, message));
    dropForeignDefault(out, (message) => this.findings.warn(`${at}/default`, message));
    this.relaxOneOf(schema, out);
    return applyNullable(schema, out);
  }

  /** Requests only: an answer is never validated, and there the document's own word is the best description. */
  private relaxOneOf(schema: JsonObject, out: JsonObject): void {
    if (this.direction !== 'request' || !Array.isArray(out.oneOf) || !Array.isArray(schema.oneOf)) return;
    const follow = (branch: Json) => {
      const followed = this.refs.follow(branch, '');
      return 'failed' in followed ? undefined : followed.node;
    };
    if (areExclusive(schema.oneOf, follow)) return;
    const branches: JsonObject = { anyOf: out.oneOf };
    delete out.oneOf;
    if (out.anyOf === undefined) out.anyOf = branches.anyOf as Json;
    else out.allOf = [...(Array.isArray(out.allOf) ? out.allOf : []), branches];
  }

  private keyword(keyword: string, value: Json, at: string, found: Definition, place: Place): Json | undefined {
    if (keyword === 'properties' || keyword === 'patternProperties') {
      return this.propertyMap(keyword, value, at, found, place);
    }
    if (keyword === 'items' || keyword === 'prefixItems') return this.items(value, at, found);
    if (LISTS_IN_PLACE.has(keyword)) return this.list(keyword, value, at, found, place);
    if (SINGLE_IN_PLACE.has(keyword)) return this.single(value, at, found, place.edge && { edge: 'or' });
    if (SINGLE.has(keyword)) return this.single(value, at, found, undefined);
    if (keyword === 'dependentSchemas') return this.schemaMap(value, at, found, place.edge && { edge: 'or' });
    if (keyword === 'pattern' && typeof value === 'string' && this.pattern(value) === null) {
      this.findings.warn(
        at,
        `the pattern ${JSON.stringify(value.slice(0, 120))} cannot be checked safely and is dropped`,
      );
      return undefined;
    }
    return plainKeyword(keyword, value, (_, message) => this.findings.warn(at, message));
  }

  /** The pattern in ECMA-262, or null where it is none or the validator of arguments refuses it. */
  private pattern(source: string): string | null {
    const pattern = ecmaPattern(source);
    return pattern !== null && this.acceptsPattern(pattern) ? pattern : null;
  }

  private single(value: Json, at: string, found: Definition, place: Place | undefined): Json | undefined {
    if (typeof value !== 'boolean' && !isJsonObject(value)) return undefined;
    return this.schema(value, at, found, place ?? {});
  }

  private items(value: Json, at: string, found: Definition): Json | undefined {
    if (!Array.isArray(value)) return this.single(value, at, found, undefined);
    if (value.length === 0) return undefined;
    return value.map((item, index) => this.schema(item, `${at}/${index}`, found, {}));
  }

  private list(keyword: string, value: Json, at: string, found: Definition, place: Place): Json | undefined {
    if (!Array.isArray(value)) return undefined;
    const edge = place.edge && (keyword === 'allOf' ? place.edge : 'or');
    const inner: Place = { edge, hidden: keyword === 'allOf' ? place.hidden : undefined };
    const members: Json[] = [];
    value.forEach((member, index) => {
      if (typeof member !== 'boolean' && !isJsonObject(member)) return;
      members.push(this.schema(member, `${at}/${index}`, found, inner));
    });
    return members.length > 0 ? members : undefined;
  }

  private schemaMap(value: Json, at: string, found: Definition, place: Place | undefined): Json | undefined {
    if (!isJsonObject(value)) return undefined;
    const out: JsonObject = {};
    for (const name of Object.keys(value)) {
      setOwn(out, name, this.schema(value[name], `${at}/${escapeToken(name)}`, found, place ?? {}));
    }
    return out;
  }

  private propertyMap(keyword: string, value: Json, at: string, found: Definition, place: Place): Json | undefined {
    if (!isJsonObject(value)) return undefined;
    const out: JsonObject = {};
    for (const name of Object.keys(value)) {
      if (keyword === 'properties' && place.hidden?.has(name) && this.isHidden(value[name])) continue;
      const key = keyword === 'properties' ? name : this.pattern(name);
      if (key === null)
        this.findings.warn(
          at,
          `the pattern ${JSON.stringify(name.slice(0, 120))} is no ECMA-262 expression and is dropped`,
        );
      else setOwn(out, key, this.schema(value[name], `${at}/${escapeToken(name)}`, found, {}));
    }
    return out;
  }

  /** Properties that do not exist in this direction, those of the other members of an `allOf` included. */
  private hiddenNames(schema: JsonObject, place: Place): ReadonlySet<string> | undefined {
    if (!schema.properties && !schema.allOf) return place.hidden;
    const names = new Set(place.hidden);
    this.collectHidden(schema, names, 0);
    return names.size > 0 ? names : undefined;
  }

  private collectHidden(schema: Json | undefined, names: Set<string>, depth: number): void {
    if (!isJsonObject(schema) || depth > 8) return;
    if (isJsonObject(schema.properties)) {
      for (const name of Object.keys(schema.properties)) if (this.isHidden(schema.properties[name])) names.add(name);
    }
    if (!Array.isArray(schema.allOf)) return;
    for (const member of schema.allOf) {
      const followed = this.refs.follow(member, '');
      if (!('failed' in followed)) this.collectHidden(followed.node, names, depth + 1);
    }
  }

  private isHidden(property: Json | undefined): boolean {
    if (!isJsonObject(property)) return false;
    return this.direction === 'request' ? property.readOnly === true : property.writeOnly === true;
  }
}
