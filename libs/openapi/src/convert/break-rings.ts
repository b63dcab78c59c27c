import { isJsonObject, type Json, type JsonObject } from '@toolfleet/contracts';
import type { Definition, InPlaceEdge, SchemaConverter } from './convert-schema.js';
import { strongComponents } from './strong-components.js';

/**
 * Cuts rings of references that apply to one and the same value (`Pet: oneOf [Cat]`, `Cat: allOf [Pet, …]`, the usual
 * reading of a discriminator): a validator would never come back from them. Rings through properties or items are
 * ordinary recursion and stay. Definitions are changed in place, once, before a tool uses them.
 */
export class RingBreaker {
  private readonly judged = new Set<string>();

  constructor(
    private readonly converter: SchemaConverter,
    private readonly complain: (pointer: string, message: string) => void,
  ) {}

  /** Makes every definition reachable from this target by in-place references free of rings. */
  cutFrom(target: string): void {
    if (this.judged.has(target)) return;
    const next = (pointer: string) => this.converter.definition(pointer).edges.map((edge) => edge.target);
    for (const { members, isRing } of strongComponents([target], next, this.judged))
      if (isRing) this.cut(new Set(members));
  }

  private cut(ring: ReadonlySet<string>): void {
    for (const pointer of ring)
      this.complain(pointer, 'the schema contains itself through allOf, oneOf or $ref: the ring is cut');
    this.redirectToBases(ring);
    this.dropBackReferences(ring);
  }

  /** A child that extends a base which lists the child as an alternative gets the base without its alternatives. */
  private redirectToBases(ring: ReadonlySet<string>): void {
    for (const pointer of ring) {
      const child = this.converter.definition(pointer);
      for (const edge of child.edges) {
        if (edge.kind !== 'and' || !ring.has(edge.target)) continue;
        const base = this.converter.definition(edge.target);
        if (!base.edges.some((other) => other.kind === 'or' && ring.has(other.target))) continue;
        const key = `${edge.target}#base`;
        edge.holder.$ref = `#/$defs/${this.converter.names.nameOf(key)}`;
        child.targets.add(key);
        this.converter.define(key, baseOf(base, ring));
        edge.target = key;
      }
    }
  }

  /** What is left are rings without alternatives to keep: the reference that closes one is dropped. */
  private dropBackReferences(ring: ReadonlySet<string>): void {
    const state = new Map<string, 'open' | 'done'>();
    for (const start of ring) {
      if (state.has(start)) continue;
      const stack: { pointer: string; edges: InPlaceEdge[]; next: number }[] = [];
      const enter = (pointer: string) => {
        state.set(pointer, 'open');
        stack.push({ pointer, edges: this.converter.definition(pointer).edges, next: 0 });
      };
      enter(start);
      for (let top = stack.at(-1); top; top = stack.at(-1)) {
        const edge = top.edges[top.next++];
        if (!edge) {
          state.set(top.pointer, 'done');
          stack.pop();
        } else if (ring.has(edge.target)) {
          if (state.get(edge.target) === 'open') dropReference(edge);
          else if (!state.has(edge.target)) enter(edge.target);
        }
      }
    }
  }
}

/** `x and x` says nothing more than x; an alternative `x or x` adds nothing: it becomes a branch that never matches. */
function dropReference(edge: InPlaceEdge): void {
  delete edge.holder.$ref;
  if (edge.kind === 'or') edge.holder.not = {};
}

function baseOf(base: Definition, ring: ReadonlySet<string>): Definition {
  const inRing = new Set<Json>(base.edges.filter((edge) => ring.has(edge.target)).map((edge) => edge.holder));
  return {
    schema: typeof base.schema === 'boolean' ? base.schema : withoutMembers(base.schema, inRing),
    targets: base.targets,
    edges: [],
  };
}

/** A copy without the in-place references in question: members of `allOf` go one by one, alternatives as a whole. */
function withoutMembers(schema: JsonObject, gone: ReadonlySet<Json>): JsonObject {
  const copy: JsonObject = { ...schema };
  if (gone.has(schema)) delete copy.$ref;
  if (Array.isArray(schema.allOf)) {
    const kept = schema.allOf
      .filter((member) => !gone.has(member))
      .map((member) => (isJsonObject(member) ? withoutMembers(member, gone) : member));
    if (kept.length > 0) copy.allOf = kept;
    else delete copy.allOf;
  }
  for (const keyword of ['anyOf', 'oneOf', 'not', 'if', 'then', 'else', 'dependentSchemas']) {
    if (keyword in schema && contains(schema[keyword] as Json, gone)) delete copy[keyword];
  }
  return copy;
}

function contains(node: Json, gone: ReadonlySet<Json>): boolean {
  if (gone.has(node)) return true;
  if (Array.isArray(node)) return node.some((item) => contains(item, gone));
  return isJsonObject(node) && Object.values(node).some((value) => contains(value, gone));
}
