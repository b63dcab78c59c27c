import type { Literal, Term } from './ast.js';
import { type Place, RegoError } from './rego-error.js';
import type { Variable } from './resolved.js';
import type { RegoValue } from './value.js';

/** Assigns the slots of a rule's frame. Slot 0 holds the result that the rule collects. */
export class FrameLayout {
  private size = 1;
  private empty?: undefined[];

  variable(name: string): Variable {
    return { name, slot: this.size++ };
  }

  /** A new frame with all its slots, because copying an array is faster than growing one. */
  frame(): (RegoValue | undefined)[] {
    if (this.empty?.length !== this.size) this.empty = Array.from({ length: this.size }, () => undefined);
    return this.empty.slice();
  }
}

/**
 * Where names of variables live: a body, a comprehension, an `every`. A name that is never declared belongs to the outermost
 * scope that uses it directly, wherever in its body; so a comprehension shares the variables of its rule, and two
 * comprehensions do not share theirs.
 */
export class Scope {
  /** Variables of outer scopes that are used in this one. */
  readonly captured = new Set<Variable>();
  private readonly variables = new Map<string, Variable>();
  private readonly declared = new Set<string>();
  private readonly seen = new Set<string>();

  constructor(
    private readonly layout: FrameLayout,
    private readonly parent: Scope | undefined,
    /** Names used directly in this scope. */
    private readonly direct: ReadonlySet<string>,
  ) {}

  /** Declares a variable from here on. @throws RegoError when the name was already used or declared in this scope */
  declare(name: string, place: Place): Variable {
    if (name === 'input' || name === 'data')
      throw new RegoError('compile_error', `${name} cannot be a variable`, place);
    if (name === '_') return this.layout.variable('_');
    if (this.declared.has(name)) throw new RegoError('compile_error', `${name} is declared twice`, place);
    if (this.seen.has(name)) throw new RegoError('compile_error', `${name} is used before it is declared`, place);
    const variable = this.layout.variable(name);
    this.variables.set(name, variable);
    this.declared.add(name);
    return variable;
  }

  /** The variable with a name. `isGlobal`: the name is a rule or an import unless a scope declares it; then undefined. */
  find(name: string, isGlobal: boolean): Variable | undefined {
    if (name === '_') return this.layout.variable('_');
    this.seen.add(name);
    const owner = this.owningScope(name, isGlobal);
    const variable = owner?.variables.get(name) ?? (isGlobal ? undefined : (owner ?? this).add(name));
    if (variable && owner) this.capture(variable, owner);
    return variable;
  }

  /** The scope that declares the variable, or the outermost one that uses an undeclared name. */
  private owningScope(name: string, isGlobal: boolean): Scope | undefined {
    if (this.variables.has(name)) return this;
    const outer = this.parent?.owningScope(name, isGlobal);
    if (outer) return outer;
    return !isGlobal && this.direct.has(name) ? this : undefined;
  }

  /** Records a variable of `owner` in all scopes between it and this one. */
  private capture(variable: Variable, owner: Scope): void {
    if (owner === this) return;
    this.captured.add(variable);
    this.parent?.capture(variable, owner);
  }

  /** True if this scope or an outer one has a variable with this name. */
  declares(name: string): boolean {
    return this.variables.has(name) || (this.parent?.declares(name) ?? false);
  }

  private add(name: string): Variable {
    const variable = this.layout.variable(name);
    this.variables.set(name, variable);
    return variable;
  }
}

/** Names used directly in a body, not in its comprehensions and `every` bodies, without those it declares. */
export function directNames(body: readonly Literal[], heads: readonly Term[] = []): Set<string> {
  const used = new Set<string>();
  const declared = new Set<string>();
  const term = (node: Term): void => {
    if (node.kind === 'var') used.add(node.name);
    else if (node.kind === 'ref') [node.head, ...node.path].forEach(term);
    else if (node.kind === 'call') node.args.forEach(term);
    else if (node.kind === 'object') node.fields.flat().forEach(term);
    else if (node.kind === 'array' || node.kind === 'set') node.items.forEach(term);
  };
  const literal = (node: Literal): void => {
    for (const { value } of node.with) term(value);
    if (node.kind === 'term') term(node.term);
    else if (node.kind === 'unify') [node.left, node.right].forEach(term);
    else if (node.kind === 'assign') {
      term(node.right);
      for (const name of patternNames(node.left)) declared.add(name);
    } else if (node.kind === 'some') node.names.forEach((name) => declared.add(name));
    else if (node.kind === 'some_in') {
      term(node.domain);
      for (const pattern of [node.key, node.value])
        if (pattern) for (const name of patternNames(pattern)) declared.add(name);
    } else if (node.kind === 'every') term(node.domain);
    else literal(node.literal);
  };
  body.forEach(literal);
  heads.forEach(term);
  return new Set([...used].filter((name) => !declared.has(name)));
}

/** Variables that a pattern binds: itself, or its elements and fields. */
export function patternNames(pattern: Term): string[] {
  if (pattern.kind === 'var') return [pattern.name];
  if (pattern.kind === 'array') return pattern.items.flatMap(patternNames);
  if (pattern.kind === 'object') return pattern.fields.flatMap(([, value]) => patternNames(value));
  return [];
}
