import type { Branch, RegoModule, Term } from './ast.js';
import { type Builtins, BUILTINS } from './builtins/catalogue.js';
import { BodyCompiler } from './compile-body.js';
import { type Det, Evaluation, type Goal, type Run } from './evaluation.js';
import { Extent } from './extent.js';
import { parseQuery } from './parse.js';
import type { KnownDocuments } from './known-documents.js';
import { RegoError, type Place } from './rego-error.js';
import { RuleResolver } from './resolve.js';
import type { ResolvedTerm } from './resolved.js';
import { checkRecursion, Node, type PlacedRule, RuleTree } from './rule-tree.js';
import type { Bound } from './safety.js';
import { directNames, FrameLayout, patternNames, Scope } from './scope.js';
import { equal, RegoSet, type RegoValue } from './value.js';

/** A compiled rule. The first of its branches that has a solution determines the value. */
interface CompiledRule {
  place: Place;
  layout: FrameLayout;
  branches: Goal[];
  /** Slots for the arguments of a function. */
  args: number[];
}

interface CompiledNode {
  rules: CompiledRule[];
  fallback?: Det;
  dynamic: CompiledRule[];
}

/** How a branch returns its results. */
type Collect = (compiler: BodyCompiler, scope: Scope, resolver: RuleResolver) => (bound: Bound) => Goal;

/** Checked and compiled modules. A program has no state, so it can run any number of evaluations. */
export class Program {
  private readonly tree = new RuleTree();
  private readonly compiled: CompiledNode[] = [];
  private readonly uses = new Map<Node, Set<Node>>();

  private readonly builtins: Builtins;
  private readonly known: KnownDocuments | undefined;

  /**
   * @param options.builtins functions that modules may call; all of this library unless given
   * @param options.known shape of `input` and `data`; references to anything else are refused
   * @throws RegoError for anything that is not in the supported language, with its place
   */
  constructor(
    private readonly modules: readonly RegoModule[],
    options: { builtins?: Builtins; known?: KnownDocuments } = {},
  ) {
    this.builtins = options.builtins ?? BUILTINS;
    this.known = options.known;
    modules.forEach((module, index) => {
      for (const rule of module.rules) this.tree.add(module.package, { rule, module: index });
      this.tree.ensure(module.package);
    });
    for (const module of modules) checkImports(module, this.tree);
    this.tree.check();
    for (const node of this.tree.nodes) {
      this.compiled[node.id] = {
        rules: node.rules
          .filter(({ rule }) => !rule.isDefault)
          .map((placed) => this.compileRule(node, placed, this.collector(placed))),
        fallback: this.fallback(node),
        dynamic: node.dynamic.map((placed) => this.compileRule(node, placed, this.intoExtent(node, placed))),
      };
    }
    checkRecursion(this.tree.nodes, this.uses);
  }

  /** The node that defines `data.<path>`; undefined if no rule does. */
  find(path: readonly string[]): Node | undefined {
    return this.tree.find(path);
  }

  /** The value of a node that rules define. */
  evaluate(node: Node, evaluation: Evaluation): RegoValue | undefined {
    evaluation.run.spend(1);
    const { rules, fallback, dynamic } = this.compiled[node.id]!;
    if (dynamic.length > 0) {
      const extent = new Extent();
      this.fill(node, evaluation, extent, []);
      return extent.value();
    }
    if (node.rules[0]!.rule.member) {
      const set = new RegoSet();
      for (const rule of rules) solve(rule, evaluation, set);
      return set;
    }
    return this.single(rules, fallback, evaluation, [], 'complete rules must not produce multiple outputs');
  }

  /**
   * The members of a set, rule by rule.
   * @param on.added called with the place of each rule that adds members which no rule before it has
   * @param on.isSkipped whether an error leaves out the members of its rule only; by default it ends the evaluation
   * @returns undefined unless rules define the node as a set
   */
  members(
    node: Node,
    evaluation: Evaluation,
    on: { added?: (place: Place) => void; isSkipped?: (error: unknown) => boolean },
  ): RegoSet | undefined {
    const { rules, dynamic } = this.compiled[node.id]!;
    if (dynamic.length > 0 || !node.rules[0]!.rule.member) return undefined;
    const set = new RegoSet();
    for (const rule of rules) {
      const { size } = set;
      try {
        solve(rule, evaluation, set);
      } catch (error) {
        if (!on.isSkipped?.(error)) throw error;
      }
      if (set.size > size) on.added?.(rule.place);
    }
    return set;
  }

  /** The result of a function. */
  call(node: Node, evaluation: Evaluation, args: readonly RegoValue[]): RegoValue | undefined {
    const { rules, fallback } = this.compiled[node.id]!;
    return this.single(
      rules,
      fallback,
      evaluation,
      args,
      'functions must not produce multiple outputs for same inputs',
    );
  }

  /** Runs a query over the modules and calls `found` with the named variables of each solution. */
  query(text: string, found: (bindings: Map<string, RegoValue>) => void): (evaluation: Evaluation) => void {
    const layout = new FrameLayout();
    const body = parseQuery(text);
    const names = [...directNames(body)].filter((name) => name !== 'data' && name !== 'input' && name !== '_');
    const resolver = new RuleResolver({
      tree: this.tree,
      package: ['\0query'],
      imports: [],
      layout,
      builtins: this.builtins,
    });
    const scope = new Scope(layout, undefined, new Set(names));
    const compiler = new BodyCompiler({ tree: this.tree, layout, uses: () => undefined });
    const resolved = resolver.body(body, scope);
    const slots = names.map((name) => [name, scope.find(name, false)!.slot] as const);
    const goal = compiler.conditions(resolved, new Set(), () => (_, f) => {
      found(new Map(slots.map(([name, slot]) => [name, f[slot]!])));
      return false;
    });
    return (evaluation) => void goal(evaluation, layout.frame());
  }

  /** Starts an evaluation. */
  start(run: Run, input: RegoValue | undefined, data: RegoValue): Evaluation {
    return new Evaluation(this, run, input, data);
  }

  private single(
    rules: readonly CompiledRule[],
    fallback: Det | undefined,
    evaluation: Evaluation,
    args: readonly RegoValue[],
    conflict: string,
  ): RegoValue | undefined {
    let result: RegoValue | undefined;
    for (const rule of rules) {
      const value = solve(rule, evaluation, undefined, args);
      if (value === undefined) continue;
      if (result !== undefined && !equal(result, value)) throw new RegoError('conflict', conflict);
      result = value;
    }
    return result === undefined ? fallback?.(evaluation, []) : result;
  }

  /** The document at and below a node with dynamic rules. */
  private fill(node: Node, evaluation: Evaluation, extent: Extent, prefix: readonly string[]): void {
    for (const rule of this.compiled[node.id]!.dynamic)
      solve(rule, evaluation, extent.at(prefix) as unknown as RegoValue);
    for (const [name, child] of node.children) {
      const path = [...prefix, name];
      if (child.isFunction) continue;
      if (child.rules.length === 0) {
        this.fill(child, evaluation, extent, path);
        continue;
      }
      const value = evaluation.evaluate(child);
      if (value instanceof RegoSet && child.rules[0]!.rule.member)
        for (const member of value.values()) extent.addMember(path, member);
      else if (value !== undefined) extent.put(path, value);
    }
  }

  private compileRule(
    node: Node,
    { rule, module: index }: PlacedRule,
    collect: (branch: Branch) => Collect,
  ): CompiledRule {
    const module = this.modules[index]!;
    const layout = new FrameLayout();
    const resolver = this.resolverFor(module, layout);
    const compiler = this.compilerFor(node, layout);
    const outer = new Scope(layout, undefined, new Set());
    const patterns = this.parameters(rule.args ?? [], resolver, outer);
    const args = patterns.map((_, i) => layout.variable(`argument ${i + 1}`).slot);
    const branches = rule.branches.map((branch) => {
      const heads = [branch.value, ...rule.path.slice(1), ...(rule.member ? [rule.member] : [])];
      const scope = new Scope(layout, outer, directNames(branch.body, heads));
      const body = resolver.body(branch.body, scope);
      const last = collect(branch)(compiler, scope, resolver);
      return compiler.matchAll(
        patterns,
        new Set(),
        (i) => (_, f) => f[args[i]!],
        (bound) => compiler.conditions(body, bound, last),
      );
    });
    return { place: rule.place, layout, branches, args };
  }

  /** Arguments are patterns. Their variables belong to the function, even if rules have the same names. */
  private parameters(args: readonly Term[], resolver: RuleResolver, scope: Scope): ResolvedTerm[] {
    const names = new Set(args.flatMap(patternNames));
    for (const name of names) if (name !== '_') scope.declare(name, args[0]!.place);
    return args.map((arg) => resolver.term(arg, scope));
  }

  private collector({ rule }: PlacedRule): (branch: Branch) => Collect {
    if (!rule.member)
      return (branch) =>
        this.intoValue(
          branch.value,
          rule.args
            ? 'functions must not produce multiple outputs for same inputs'
            : 'complete rules must not produce multiple outputs',
        );
    const { member } = rule;
    return () => (compiler, scope, resolver) => {
      const term = resolver.term(member, scope);
      return (bound) =>
        compiler.lower(term, bound, (det) => (e, f) => {
          const value = det(e, f);
          if (value !== undefined) (f[0] as RegoSet).add(value);
          return false;
        });
    };
  }

  private intoValue(value: Term, conflict: string): Collect {
    return (compiler, scope, resolver) => {
      const term = resolver.term(value, scope);
      // Every solution has the same constant value, so the first one is enough.
      const constant = term.kind === 'scalar';
      return (bound) =>
        compiler.lower(term, bound, (det) => (e, f) => {
          const found = det(e, f);
          if (found === undefined) return false;
          if (f[0] !== undefined && !equal(f[0], found)) throw new RegoError('conflict', conflict);
          f[0] = found;
          return constant;
        });
    };
  }

  private intoExtent(node: Node, { rule, module }: PlacedRule): (branch: Branch) => Collect {
    const known = node.path.length - this.modules[module]!.package.length;
    return (branch) => (compiler, scope, resolver) => {
      const path = rule.path.slice(known).map((step) => resolver.term(step, scope));
      const leaf = resolver.term(rule.member ?? branch.value, scope);
      const { length } = path;
      return (bound) =>
        compiler.each([...path, leaf], bound, (values, f) => {
          const extent = f[0] as unknown as Extent;
          const steps = values.slice(0, length);
          if (rule.member) extent.addMember(steps, values[length]!);
          else extent.put(steps, values[length]!);
        });
    };
  }

  private fallback(node: Node): Det | undefined {
    const placed = node.rules.find(({ rule }) => rule.isDefault);
    if (!placed) return undefined;
    const layout = new FrameLayout();
    const { rule, module } = placed;
    if (!isGround(rule.branches[0]!.value))
      throw new RegoError('compile_error', 'a default is a plain value', rule.place);
    const resolver = this.resolverFor(this.modules[module]!, layout);
    const scope = new Scope(layout, undefined, new Set());
    const compiler = this.compilerFor(node, layout);
    const value = compiler.det(resolver.term(rule.branches[0]!.value, scope), new Set());
    return (e) => value(e, layout.frame());
  }

  private compilerFor(node: Node, layout: FrameLayout): BodyCompiler {
    return new BodyCompiler({ tree: this.tree, layout, uses: (used) => this.note(node, used), known: this.known });
  }

  private resolverFor({ package: path, imports }: RegoModule, layout: FrameLayout): RuleResolver {
    return new RuleResolver({ tree: this.tree, package: path, imports, layout, builtins: this.builtins });
  }

  private note(by: Node, used: Node): void {
    let known = this.uses.get(by);
    if (!known) this.uses.set(by, (known = new Set()));
    known.add(used);
  }
}

/** Checks that each import name has one meaning in its module. */
function checkImports({ package: path, imports }: RegoModule, tree: RuleTree): void {
  const names = new Set([...tree.ruleNames(path), 'input', 'data']);
  for (const { alias, place } of imports) {
    if (names.has(alias)) throw new RegoError('compile_error', `${alias} means two things`, place);
    names.add(alias);
  }
}

/** Whether a term is a literal value: no names or calls. Comprehensions count, because OPA allows them. */
function isGround(term: Term): boolean {
  if (term.kind === 'scalar' || term.kind === 'comprehension') return true;
  if (term.kind === 'object') return term.fields.flat().every(isGround);
  return (term.kind === 'array' || term.kind === 'set') && term.items.every(isGround);
}

function solve(
  rule: CompiledRule,
  evaluation: Evaluation,
  into: RegoValue | undefined,
  args: readonly RegoValue[] = [],
): RegoValue | undefined {
  const frame = rule.layout.frame();
  frame[0] = into;
  for (let i = 0; i < rule.args.length; i++) frame[rule.args[i]!] = args[i]!;
  for (const branch of rule.branches) {
    branch(evaluation, frame);
    if (into === undefined && frame[0] !== undefined) return frame[0];
  }
  return undefined;
}
