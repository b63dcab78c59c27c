import { isJsonObject, type Json, type JsonObject } from '@toolfleet/base';
import { escapeToken, toPointer, pointerTokens, valueAt } from '../json-pointer.js';

/** Longest chain of references that is followed. */
const MAX_HOPS = 20;

/** A value of the document and where it stands. */
export interface Located<T extends Json = Json> {
  node: T;
  pointer: string;
}

/** Outcome of following `$ref` of a parameter, body, header or path item. */
export type Followed = Located<JsonObject> | { failed: 'dangling' | 'cycle' | 'external' | 'not_object'; ref: string };

/** Resolves references inside one document: RFC 6901 pointers and 3.1 anchors. Never dereferences the document. */
export class RefResolver {
  private readonly cache = new Map<string, Located | undefined>();
  private anchors: Map<string, string> | undefined;

  constructor(private readonly root: JsonObject) {}

  /** The value a local reference (`#…`) names, or undefined. Equal targets have equal pointers, however they are spelt. */
  locate(ref: string): Located | undefined {
    if (this.cache.has(ref)) return this.cache.get(ref);
    const found = this.find(ref);
    this.cache.set(ref, found);
    return found;
  }

  /** Follows `$ref` of a node that is not a schema, at most 20 hops. */
  follow(node: Json | undefined, pointer: string): Followed {
    let at: { node: Json | undefined; pointer: string } = { node, pointer };
    for (let hop = 0; ; hop += 1) {
      if (!isJsonObject(at.node)) return { failed: 'not_object', ref: at.pointer };
      const ref = at.node.$ref;
      if (typeof ref !== 'string') return { node: at.node, pointer: at.pointer };
      if (!ref.startsWith('#')) return { failed: 'external', ref };
      if (hop === MAX_HOPS) return { failed: 'cycle', ref };
      const target = this.locate(ref);
      if (!target) return { failed: 'dangling', ref };
      at = target;
    }
  }

  /** The node to which `$ref` of a node leads, or undefined. */
  nodeOf(node: Json | undefined): JsonObject | undefined {
    const followed = this.follow(node, '');
    return 'failed' in followed ? undefined : followed.node;
  }

  private find(ref: string): Located | undefined {
    const fragment = ref.slice(1);
    if (fragment !== '' && !fragment.startsWith('/')) {
      const pointer = this.anchorIndex().get(decode(fragment));
      return pointer === undefined ? undefined : this.at(pointerTokens(pointer));
    }
    // RFC 6901 section 6: percent-decode, then evaluate. Documents that encode a slash of a key, or hold a literal
    // percent sign in one, are met by the two further readings, tried only when the right one finds nothing.
    return (
      this.at(pointerTokens(decode(fragment))) ??
      this.at(pointerTokens(fragment).map(decode)) ??
      this.at(pointerTokens(fragment))
    );
  }

  private at(tokens: string[]): Located | undefined {
    const node = valueAt(this.root, tokens);
    return node === undefined ? undefined : { node, pointer: toPointer(tokens) };
  }

  /** `$anchor` and `$dynamicAnchor` of the whole document; data positions (examples, defaults) are not looked into. */
  private anchorIndex(): Map<string, string> {
    if (this.anchors) return this.anchors;
    const anchors = new Map<string, string>();
    const visit = (node: Json, tokens: string[]): void => {
      if (Array.isArray(node)) node.forEach((item, index) => visit(item, [...tokens, String(index)]));
      if (!isJsonObject(node)) return;
      for (const keyword of ['$anchor', '$dynamicAnchor']) {
        const name = node[keyword];
        if (typeof name === 'string' && !anchors.has(name)) anchors.set(name, toPointer(tokens));
      }
      for (const [key, value] of Object.entries(node)) {
        if (!DATA_KEYWORDS.has(key)) visit(value, [...tokens, key]);
      }
    };
    visit(this.root, []);
    this.anchors = anchors;
    return anchors;
  }
}

/** Members that hold data, not schemas or references (`value` is the Example Object's). */
const DATA_KEYWORDS: ReadonlySet<string> = new Set(['example', 'default', 'const', 'enum', 'value']);

function decode(text: string): string {
  if (!text.includes('%')) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a stray percent sign is taken literally
  }
}

/** A reference that leaves the document, and where it stands. */
export interface ExternalRef {
  pointer: string;
  target: string;
}

/** Members of one node, without following its local references. */
interface Direct {
  external?: ExternalRef;
  targets: Set<string>;
}

/**
 * Finds the operations that reach a reference to another document. Each target of a local reference is visited once per document,
 * so that the cost is linear in its size.
 */
export class ExternalRefs {
  /** For each target pointer, the external reference that it reaches, or null. */
  private readonly verdicts = new Map<string, ExternalRef | null>();

  constructor(private readonly refs: RefResolver) {}

  /** The first external reference reached from the node, or undefined. */
  reachedFrom(node: Json, pointer: string): ExternalRef | undefined {
    const own = this.direct(node, pointer);
    if (own.external) return own.external;
    this.classify(own.targets);
    for (const target of own.targets) {
      const verdict = this.verdicts.get(target);
      if (verdict) return verdict;
    }
    return undefined;
  }

  /** Classifies all reachable targets: externals propagate backwards along the references. */
  private classify(start: Iterable<string>): void {
    const usedBy = new Map<string, string[]>();
    const tainted: [string, ExternalRef][] = [];
    const open: string[] = [];
    const meet = (target: string) => {
      const verdict = this.verdicts.get(target);
      if (verdict) tainted.push([target, verdict]);
      if (verdict !== undefined) return;
      this.verdicts.set(target, null);
      open.push(target);
    };
    for (const target of start) meet(target);
    for (let target = open.pop(); target !== undefined; target = open.pop()) {
      const located = this.refs.locate(`#${target}`);
      if (!located) continue;
      const own = this.direct(located.node, located.pointer);
      if (own.external) tainted.push([target, own.external]);
      for (const next of own.targets) {
        const users = usedBy.get(next);
        if (users) users.push(target);
        else usedBy.set(next, [target]);
        meet(next);
      }
    }
    for (let entry = tainted.pop(); entry; entry = tainted.pop()) {
      const [target, external] = entry;
      this.verdicts.set(target, external);
      for (const user of usedBy.get(target) ?? []) if (this.verdicts.get(user) === null) tainted.push([user, external]);
    }
  }

  private direct(node: Json, pointer: string): Direct {
    const own: Direct = { targets: new Set() };
    this.collect(node, pointer, own, false);
    return own;
  }

  private collect(node: Json, pointer: string, own: Direct, names: boolean): void {
    if (own.external) return;
    if (Array.isArray(node)) {
      node.forEach((item, index) => this.collect(item, `${pointer}/${index}`, own, false));
      return;
    }
    if (!isJsonObject(node)) return;
    // Below `properties` and the like every key is a name: one called `$ref` or `example` is a schema.
    if (!names && typeof node.$ref === 'string') this.note(node.$ref, pointer, own);
    for (const key in node) {
      const value = node[key];
      if (typeof value !== 'object' || value === null) continue;
      if (!names && (DATA_KEYWORDS.has(key) || key.startsWith('x-') || (key === 'examples' && Array.isArray(value)))) {
        continue;
      }
      this.collect(value, `${pointer}/${escapeToken(key)}`, own, !names && NAME_MAPS.has(key));
    }
  }

  private note(ref: string, pointer: string, own: Direct): void {
    if (!ref.startsWith('#')) {
      own.external = { pointer: `${pointer}/$ref`, target: ref };
      return;
    }
    const located = this.refs.locate(ref);
    if (located) own.targets.add(located.pointer);
  }
}

/** Members with keys named by the author. */
const NAME_MAPS: ReadonlySet<string> = new Set([
  'properties',
  'patternProperties',
  '$defs',
  'definitions',
  'dependentSchemas',
]);
