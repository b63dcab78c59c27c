import { isJsonObject, type Json, type JsonObject } from '@toolfleet/base';
import type { Definition, InPlaceEdge, SchemaConverter } from './convert-schema.js';

/**
 * Breaks cycles of references that apply to one and the same value (`Pet: oneOf [Cat]`, `Cat: allOf [Pet, …]`, the usual
 * reading of a discriminator): a validator would recurse without end. Cycles through properties or items are
 * ordinary recursion and stay. Definitions are changed in place, once, before a tool uses them.
 */
export class CycleBreaker {
  private readonly seen = new Set<string>();

  constructor(
    private readonly converter: SchemaConverter,
    private readonly complain: (pointer: string, message: string) => void,
  ) {}

  /** Makes every definition reachable from this target by in-place references free of cycles. */
  breakFrom(target: string): void {
    if (this.seen.has(target)) return;
    const next = (pointer: string) => this.converter.definition(pointer).edges.map((edge) => edge.target);
    for (const { members, isCycle } of strongComponents([target], next, this.seen))
      if (isCycle) this.break(new Set(members));
  }

  private break(cycle: ReadonlySet<string>): void {
    for (const pointer of cycle)
      this.complain(pointer, 'the schema contains itself through allOf, oneOf or $ref: the cycle is broken');
    this.redirectToBases(cycle);
    this.dropBackReferences(cycle);
  }

  /** A child that extends a base which lists the child as an alternative gets the base without its alternatives. */
  private redirectToBases(cycle: ReadonlySet<string>): void {
    for (const pointer of cycle) {
      const child = this.converter.definition(pointer);
      for (const edge of child.edges) {
        if (edge.kind !== 'and' || !cycle.has(edge.target)) continue;
        const base = this.converter.definition(edge.target);
        if (!base.edges.some((other) => other.kind === 'or' && cycle.has(other.target))) continue;
        const key = `${edge.target}#base`;
        edge.holder.$ref = `#/$defs/${this.converter.names.get(key)}`;
        child.targets.add(key);
        this.converter.define(key, toBase(base, cycle));
        edge.target = key;
      }
    }
  }

  /** The remaining cycles have no alternatives to keep: the reference that closes one is dropped. */
  private dropBackReferences(cycle: ReadonlySet<string>): void {
    const state = new Map<string, 'open' | 'done'>();
    for (const start of cycle) {
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
        } else if (cycle.has(edge.target)) {
          if (state.get(edge.target) === 'open') dropReference(edge);
          else if (!state.has(edge.target)) enter(edge.target);
        }
      }
    }
  }
}

/** `x and x` equals x, so the reference goes; an alternative `x or x` becomes a branch that never matches. */
function dropReference(edge: InPlaceEdge): void {
  delete edge.holder.$ref;
  if (edge.kind === 'or') edge.holder.not = {};
}

function toBase(base: Definition, cycle: ReadonlySet<string>): Definition {
  const inCycle = new Set<Json>(base.edges.filter((edge) => cycle.has(edge.target)).map((edge) => edge.holder));
  return {
    schema: typeof base.schema === 'boolean' ? base.schema : withoutMembers(base.schema, inCycle),
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

/** A node on the path of the search. */
interface SchemaFrame {
  node: string;
  targets: string[];
  next: number;
}

/** Nodes that reach each other. `isCycle`: more than one of them, or one that reaches itself. */
interface Component {
  members: string[];
  isCycle: boolean;
}

/**
 * Strongly connected components, those that others lead to first (Tarjan 1972, without recursion: chains in hostile
 * documents are longer than the call stack). Nodes in `seen` are skipped; all nodes met are added to it.
 */
export function strongComponents(
  starts: Iterable<string>,
  targetsOf: (node: string) => string[],
  seen: Set<string>,
): Component[] {
  const components: Component[] = [];
  const index = new Map<string, number>();
  const low = new Map<string, number>();
  const component: string[] = [];
  const onComponent = new Set<string>();
  const stack: SchemaFrame[] = [];

  const enter = (node: string): void => {
    seen.add(node);
    index.set(node, index.size);
    low.set(node, index.size - 1);
    component.push(node);
    onComponent.add(node);
    stack.push({ node, targets: targetsOf(node), next: 0 });
  };
  const lower = (node: string, value: number | undefined): void => {
    if (value !== undefined && value < (low.get(node) ?? 0)) low.set(node, value);
  };
  const leave = (frame: SchemaFrame): void => {
    stack.pop();
    const parent = stack.at(-1);
    if (parent) lower(parent.node, low.get(frame.node));
    if (low.get(frame.node) !== index.get(frame.node)) return;
    const members: string[] = [];
    for (let member = component.pop(); member !== undefined; member = component.pop()) {
      onComponent.delete(member);
      members.push(member);
      if (member === frame.node) break;
    }
    const isCycle = members.length > 1 || frame.targets.includes(frame.node);
    components.push({ members: members.toReversed(), isCycle });
  };

  for (const start of starts) {
    if (seen.has(start)) continue;
    enter(start);
    for (let frame = stack.at(-1); frame; frame = stack.at(-1)) {
      const target = frame.targets[frame.next++];
      if (target === undefined) leave(frame);
      else if (!seen.has(target)) enter(target);
      else if (onComponent.has(target)) lower(frame.node, index.get(target));
    }
  }
  return components;
}
