import type { Import, Literal, Term, With } from './ast.js';
import type { Builtins } from './builtins/catalogue.js';
import { dottedName } from './parse-term.js';
import { type Place, RegoError } from './rego-error.js';
import type { Callee, ResolvedLiteral, ResolvedTerm, ResolvedWith, Variable } from './resolved.js';
import type { RuleTree } from './rule-tree.js';
import { directNames, type FrameLayout, patternNames, Scope } from './scope.js';

/** The names of one module. */
interface Names {
  tree: RuleTree;
  package: readonly string[];
  imports: readonly Import[];
  layout: FrameLayout;
  builtins: Builtins;
}

/** Resolves every name to a variable, a rule, an import, `input` or `data`. @throws RegoError compile_error, unsupported */
export class RuleResolver {
  constructor(private readonly names: Names) {}

  body(body: readonly Literal[], scope: Scope): ResolvedLiteral[] {
    return body.flatMap((literal) => this.literal(literal, scope));
  }

  term(term: Term, scope: Scope): ResolvedTerm {
    const { place } = term;
    switch (term.kind) {
      case 'scalar':
        return term;
      case 'var':
        return this.name(term.name, place, scope);
      case 'ref': {
        const head = this.term(term.head, scope);
        const path = term.path.map((step) => this.term(step, scope));
        if (head.kind === 'ref') return { kind: 'ref', head: head.head, path: [...head.path, ...path], place };
        return { kind: 'ref', head, path, place };
      }
      case 'array':
      case 'set':
        return { kind: term.kind, items: term.items.map((item) => this.term(item, scope)), place };
      case 'object':
        return {
          kind: 'object',
          fields: term.fields.map(([k, v]) => [this.term(k, scope), this.term(v, scope)]),
          place,
        };
      case 'call': {
        const callee = term.operator ? this.builtin(term.name[0]!) : this.callee(term.name, scope);
        if (!callee)
          throw new RegoError('unsupported', `unknown or unsupported function ${term.name.join('.')}`, place);
        return { kind: 'call', callee, args: term.args.map((arg) => this.term(arg, scope)), place };
      }
      case 'comprehension': {
        const heads = term.key ? [term.key, term.value] : [term.value];
        const inner = new Scope(this.names.layout, scope, directNames(term.body, heads));
        const body = this.body(term.body, inner);
        const key = term.key && this.term(term.key, inner);
        const value = this.term(term.value, inner);
        return { kind: 'comprehension', of: term.of, key, value, body, captured: inner.captured, place };
      }
    }
  }

  private literal(literal: Literal, scope: Scope): ResolvedLiteral[] {
    const { place } = literal;
    const rest = { with: literal.with.map((modifier) => this.with(modifier, scope)), place };
    switch (literal.kind) {
      case 'term':
        return [{ kind: 'term', term: this.term(literal.term, scope), ...rest }];
      case 'unify':
        return unify(this.term(literal.left, scope), this.term(literal.right, scope), rest);
      case 'assign': {
        const right = this.term(literal.right, scope);
        if (patternNames(literal.left).length === 0)
          throw new RegoError('compile_error', 'nothing to assign to', place);
        return unify(this.declaring(literal.left, scope), right, rest);
      }
      case 'some':
        for (const name of literal.names) scope.declare(name, place);
        return [];
      case 'some_in': {
        const domain = this.term(literal.domain, scope);
        const key = literal.key && this.declaring(literal.key, scope);
        return [{ kind: 'some_in', key, value: this.declaring(literal.value, scope), domain, ...rest }];
      }
      case 'every':
        return [this.every(literal, scope, rest)];
      case 'not':
        return [{ kind: 'not', body: this.literal(literal.literal, scope), ...rest }];
    }
  }

  private every(
    literal: Literal & { kind: 'every' },
    scope: Scope,
    rest: { with: ResolvedWith[]; place: Place },
  ): ResolvedLiteral {
    const domain = this.term(literal.domain, scope);
    const inner = new Scope(this.names.layout, scope, directNames(literal.body));
    const declare = (term: Term): Variable => {
      if (term.kind !== 'var') throw new RegoError('unsupported', 'every takes plain variables', literal.place);
      return inner.declare(term.name, term.place);
    };
    const key = literal.key && declare(literal.key);
    const value = declare(literal.value);
    const body = this.body(literal.body, inner);
    return { kind: 'every', key, value, domain, body, captured: inner.captured, ...rest };
  }

  /** A pattern with new variables. */
  declaring(pattern: Term, scope: Scope): ResolvedTerm {
    const names = patternNames(pattern);
    for (const name of new Set(names)) scope.declare(name, pattern.place);
    return this.term(pattern, scope);
  }

  private name(name: string, place: Place, scope: Scope): ResolvedTerm {
    const path = this.global(name);
    const root = name === 'input' || name === 'data';
    const variable = root ? undefined : scope.find(name, path !== undefined);
    if (variable) return { kind: 'local', variable, place };
    if (root) return { kind: 'root', name, place };
    return refTo(path!, place);
  }

  /** Resolves a name that no scope declares: a rule of the package, or an import. */
  private global(name: string): readonly string[] | undefined {
    if (this.names.tree.ruleNames(this.names.package).has(name)) return ['data', ...this.names.package, name];
    return this.names.imports.find(({ alias }) => alias === name)?.path;
  }

  private callee(name: readonly string[], scope?: Scope): Callee | undefined {
    const [first, ...rest] = name as [string, ...string[]];
    const isGlobal = first === 'data' || first === 'input' || this.global(first) !== undefined;
    if (scope && !isGlobal && first !== '_' && scope.declares(first)) return undefined;
    const path = first === 'data' ? name : [...(this.global(first) ?? []), ...rest];
    if (isGlobal && path[0] === 'data') {
      const node = this.names.tree.find(path.slice(1));
      return node?.isFunction ? { kind: 'function', node } : undefined;
    }
    return this.builtin(name.join('.'));
  }

  private builtin(name: string): Callee | undefined {
    const builtin = this.names.builtins.get(name);
    return builtin && { kind: 'builtin', name, builtin };
  }

  private with({ target, value, place }: With, scope: Scope): ResolvedWith {
    const [first, ...rest] = target as [string, ...string[]];
    const path = first === 'input' || first === 'data' ? target : [...(this.global(first) ?? []), ...rest];
    const callee = this.callee(target);
    if (callee) {
      return { kind: 'function', callee, by: this.resolveCallee(value) ?? this.term(value, scope) };
    }
    if (path[0] !== 'input' && path[0] !== 'data')
      throw new RegoError('unsupported', `with cannot replace ${target.join('.')}`, place);
    if (path[0] === 'data' && path.length === 1)
      throw new RegoError('unsupported', 'with data replaces all rules', place);
    return { kind: path[0], path: path.slice(1), value: this.term(value, scope) };
  }

  /** The function of a plain name, in `with f as g`. */
  private resolveCallee(term: Term): Callee | undefined {
    const name = dottedName(term);
    return name && this.callee(name);
  }
}

function refTo(path: readonly string[], place: Place): ResolvedTerm {
  const head: ResolvedTerm = { kind: 'root', name: path[0] as 'data' | 'input', place };
  if (path.length === 1) return head;
  return { kind: 'ref', head, path: path.slice(1).map((value) => ({ kind: 'scalar', value, place })), place };
}

/**
 * Two composites unify part by part, so each part becomes a separate condition and can be put where its variables are
 * known: `[x, 1] = [y, y]` is solved whichever side knows first.
 */
function unify(
  left: ResolvedTerm,
  right: ResolvedTerm,
  rest: { with: ResolvedWith[]; place: Place },
): ResolvedLiteral[] {
  if (left.kind === 'array' && right.kind === 'array') {
    if (left.items.length !== right.items.length) return [{ kind: 'never', ...rest }];
    if (left.items.length > 0) return left.items.flatMap((item, i) => unify(item, right.items[i]!, rest));
  }
  if (left.kind === 'object' && right.kind === 'object' && left.fields.length > 0) {
    const pairs = pairFields(left.fields, right.fields);
    if (pairs === 'differ') return [{ kind: 'never', ...rest }];
    if (pairs) return pairs.flatMap(([a, b]) => unify(a, b, rest));
  }
  return [{ kind: 'unify', left, right, ...rest }];
}

function pairFields(
  left: [ResolvedTerm, ResolvedTerm][],
  right: [ResolvedTerm, ResolvedTerm][],
): [ResolvedTerm, ResolvedTerm][] | 'differ' | undefined {
  const byKey = new Map<unknown, ResolvedTerm>();
  for (const [key, value] of right) {
    if (key.kind !== 'scalar' || byKey.has(key.value)) return undefined;
    byKey.set(key.value, value);
  }
  const pairs: [ResolvedTerm, ResolvedTerm][] = [];
  for (const [key, value] of left) {
    if (key.kind !== 'scalar') return undefined;
    const other = byKey.get(key.value);
    if (!other) return 'differ';
    pairs.push([value, other]);
  }
  return left.length === right.length ? pairs : 'differ';
}
