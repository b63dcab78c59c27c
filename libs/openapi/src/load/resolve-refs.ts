import { isJsonObject, type Json, type JsonObject } from '@toolfleet/contracts';
import { pointerOf, pointerTokens, valueAt } from '../json-pointer.js';

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

  /** Follows `$ref` of a node that is no schema, at most 20 hops. */
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

  private find(ref: string): Located | undefined {
    const fragment = ref.slice(1);
    if (fragment !== '' && !fragment.startsWith('/')) {
      const pointer = this.anchorIndex().get(decode(fragment));
      return pointer === undefined ? undefined : this.at(pointerTokens(pointer));
    }
    // RFC 6901 section 6: percent-decode, then evaluate. Documents that encode a slash of a key, or hold a literal
    // percent sign in one, are met by the two further readings, which are tried only when the right one finds nothing.
    return (
      this.at(pointerTokens(decode(fragment))) ??
      this.at(pointerTokens(fragment).map(decode)) ??
      this.at(pointerTokens(fragment))
    );
  }

  private at(tokens: string[]): Located | undefined {
    const node = valueAt(this.root, tokens);
    return node === undefined ? undefined : { node, pointer: pointerOf(tokens) };
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
        if (typeof name === 'string' && !anchors.has(name)) anchors.set(name, pointerOf(tokens));
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
export const DATA_KEYWORDS: ReadonlySet<string> = new Set(['example', 'default', 'const', 'enum', 'value']);

function decode(text: string): string {
  if (!text.includes('%')) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a stray percent sign: taken literally
  }
}
