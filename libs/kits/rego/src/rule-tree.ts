import type { Rule } from './ast.js';
import { type Place, RegoError } from './rego-error.js';

/** A rule with its module. */
export interface PlacedRule {
  rule: Rule;
  /** Index of its module. */
  module: number;
}

/**
 * A place in `data` at which rules define something. `rules` give the value of this very path; `dynamic` ones give values
 * below it, at paths known only when they run (`p[x] := y`). The value of a node with `dynamic` rules is all that lies below it.
 */
export class Node {
  readonly children = new Map<string, Node>();
  readonly rules: PlacedRule[] = [];
  readonly dynamic: PlacedRule[] = [];

  constructor(
    readonly id: number,
    readonly path: readonly string[],
  ) {}

  get isFunction(): boolean {
    return this.rules[0]?.rule.args !== undefined;
  }

  /** True when rules define this node, so that references stop here and go on in its value. */
  get hasValue(): boolean {
    return this.rules.length > 0 || this.dynamic.length > 0;
  }

  get arity(): number {
    return this.rules[0]?.rule.args?.length ?? 0;
  }
}

/** All rules of all modules by the path they define. */
export class RuleTree {
  readonly nodes: Node[] = [new Node(0, [])];
  private readonly packages = new Map<string, Set<string>>();

  get root(): Node {
    return this.nodes[0]!;
  }

  /** Names of the rules of a package, from all its modules, without the packages below it. */
  ruleNames(packagePath: readonly string[]): Set<string> {
    const key = JSON.stringify(packagePath);
    let names = this.packages.get(key);
    if (!names) this.packages.set(key, (names = new Set()));
    return names;
  }

  add(packagePath: readonly string[], placed: PlacedRule): void {
    const { rule } = placed;
    let node = this.ensure(packagePath);
    const [first] = rule.path;
    if (first?.kind === 'var') {
      if (first.name === 'input' || first.name === 'data') throw refused(`${first.name} cannot be a rule`, rule.place);
      this.ruleNames(packagePath).add(first.name);
    }
    let steps = 0;
    for (const step of rule.path) {
      const name = step.kind === 'scalar' ? step.value : steps === 0 && step.kind === 'var' ? step.name : undefined;
      if (typeof name !== 'string') break;
      node = this.child(node, name);
      steps++;
    }
    if (steps === rule.path.length) return void node.rules.push(placed);
    if (rule.args || rule.isDefault) throw refused('functions and defaults have a fixed name', rule.place);
    if (rule.branches.length > 1) throw refused('else needs a rule of a fixed name', rule.place);
    node.dynamic.push(placed);
  }

  /** The node of a package; one that defines nothing is an empty object. */
  ensure(packagePath: readonly string[]): Node {
    return packagePath.reduce((node, name) => this.child(node, name), this.root);
  }

  /** The node at a path, if rules are at or below it. */
  find(path: readonly string[]): Node | undefined {
    return path.reduce<Node | undefined>((node, step) => node?.children.get(step), this.root);
  }

  /** Refuses nodes that are defined in two ways. */
  check(): void {
    for (const node of this.nodes) {
      const [first] = node.rules;
      if (!first) continue;
      if (node.children.size > 0 || node.dynamic.length > 0)
        throw refused(`${node.path.join('.')} has rules below it`, first.rule.place);
      for (const { rule } of node.rules) {
        if (
          (rule.args?.length ?? -1) !== (first.rule.args?.length ?? -1) ||
          (rule.member === undefined) !== (first.rule.member === undefined)
        ) {
          throw refused(`${node.path.join('.')} is defined in two ways`, rule.place);
        }
      }
      if (node.rules.filter(({ rule }) => rule.isDefault).length > 1) throw refused('two defaults', first.rule.place);
    }
  }

  private child(node: Node, name: string): Node {
    let child = node.children.get(name);
    if (!child) node.children.set(name, (child = this.make([...node.path, name])));
    return child;
  }

  private make(path: string[]): Node {
    const node = new Node(this.nodes.length, path);
    this.nodes.push(node);
    return node;
  }
}

function refused(message: string, place: Place): RegoError {
  return new RegoError('compile_error', message, place);
}

/**
 * Checks that no rule depends on itself, directly or through other rules.
 * @throws RegoError `recursion`, with the cycle
 */
export function checkRecursion(nodes: readonly Node[], uses: ReadonlyMap<Node, ReadonlySet<Node>>): void {
  const state = new Map<Node, 'open' | 'done'>();
  const trail: Node[] = [];
  const visit = (node: Node): void => {
    if (state.get(node) === 'done') return;
    if (state.get(node) === 'open') {
      const cycle = [...trail.slice(trail.indexOf(node)), node].map(({ path }) => path.join('.'));
      const [place] = [...node.rules, ...node.dynamic].map(({ rule }) => rule.place);
      throw new RegoError('recursion', `recursive rules: ${cycle.join(' -> ')}`, place);
    }
    state.set(node, 'open');
    trail.push(node);
    for (const used of uses.get(node) ?? []) visit(used);
    // The value of a package, and of dynamic rules, consists of the values of its children.
    if (node.rules.length === 0) for (const child of node.children.values()) if (!child.isFunction) visit(child);
    trail.pop();
    state.set(node, 'done');
  };
  nodes.forEach(visit);
}
