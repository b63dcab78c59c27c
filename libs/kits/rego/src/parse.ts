import type { Branch, Import, Literal, RegoModule, Rule, Term, With } from './ast.js';
import { dottedName, extend, scalar, TermParser } from './parse-term.js';
import type { Place } from './rego-error.js';

/**
 * Parses a policy file in Rego v1. Of Rego v0 only the form `deny[msg] { … }` is supported.
 * @throws RegoError parse_error with its position
 */
export function parseModule(text: string, file: string): RegoModule {
  return new ModuleParser(text, file).module();
}

/** Parses conditions outside of a module, as a query. */
export function parseQuery(text: string): Literal[] {
  return new ModuleParser(text, 'query').query();
}

class ModuleParser extends TermParser {
  module(): RegoModule {
    this.expectKeyword('package');
    const module: RegoModule = { file: this.file, package: this.names(), imports: [], rules: [] };
    while (this.isKeyword('import')) module.imports.push(...this.import());
    while (this.token.kind !== 'end') {
      if (this.isKeyword('import')) this.fail('imports come before rules');
      module.rules.push(this.rule());
    }
    return module;
  }

  query(): Literal[] {
    const literals = this.body('');
    if (this.token.kind !== 'end') this.fail('expected the end of the query');
    return literals;
  }

  private names(): string[] {
    const { place } = this;
    return dottedName(this.reference()) ?? this.failAt('expected a dotted name', place);
  }

  /** A reference at the start of a rule, a package or an import. After a dot, keywords are names. */
  private reference(): Term {
    const { place } = this;
    let term: Term = { kind: 'var', name: this.expectName(), place };
    while (this.token.glued && (this.isSign('.') || this.isSign('[')))
      term = extend(term, this.takeSign('.') ? this.dotName() : this.bracket(), place);
    return term;
  }

  private dotName(): Term {
    const { place } = this;
    return scalar(this.nameAfterDot(), place);
  }

  private bracket(): Term {
    this.expectSign('[');
    const term = this.term();
    this.expectSign(']');
    return term;
  }

  private import(): Import[] {
    const { place } = this;
    this.next();
    const path = this.names();
    const alias = this.takeKeyword('as') ? this.expectName() : path.at(-1)!;
    // These enable v1 syntax, always enabled here.
    if (path[0] === 'rego' || path[0] === 'future') {
      const known = path.join('.') === 'rego.v1' || (path[0] === 'future' && path[1] === 'keywords');
      if (!known) this.failAt(`unknown import ${path.join('.')}`, place);
      return [];
    }
    if (path[0] !== 'data' && path[0] !== 'input') this.failAt('an import starts with data or input', place);
    return [{ path, alias, place }];
  }

  private rule(): Rule {
    const { place } = this;
    const isDefault = this.takeKeyword('default');
    const name = this.reference();
    const path = name.kind === 'ref' ? [name.head, ...name.path] : [name];
    const rule: Rule = { path, isDefault, branches: [], place };
    if (this.isSign('(') && this.token.glued) {
      this.next();
      rule.args = this.list(')');
    } else if (this.takeKeyword('contains')) {
      rule.member = this.term();
    } else if (this.isSign('{') && path.length === 2 && !isDefault) {
      return this.setRuleOfV0(rule);
    }
    rule.branches.push(this.branch(rule, place));
    if (isDefault) {
      if (rule.branches[0]!.body.length > 0) this.failAt('a default rule cannot have a body', place);
      if (rule.member) this.failAt('a default rule has one value', place);
      return rule;
    }
    while (!rule.member && this.isKeyword('else')) {
      const at = this.place;
      this.next();
      rule.branches.push(this.branch(rule, at));
    }
    this.endOfRule();
    return rule;
  }

  /** `deny[msg] { … }` */
  private setRuleOfV0(rule: Rule): Rule {
    const [, member] = rule.path;
    const body = this.block();
    this.endOfRule();
    return {
      ...rule,
      path: [rule.path[0]!],
      member: member!,
      branches: [{ value: scalar(true, rule.place), body, place: rule.place }],
    };
  }

  /** `:= value if body`. Each part is optional, but a v1 rule has at least one of them. */
  private branch(rule: Rule, place: Place): Branch {
    const hasValue = !rule.member && (this.takeSign(':=') || this.takeSign('='));
    const value = hasValue ? this.term() : scalar(true, place);
    const isElse = rule.branches.length > 0;
    let body: Literal[] = [];
    if (!rule.isDefault && this.takeKeyword('if')) {
      body = this.isSign('{') ? this.ifBlock() : [this.literal()];
    } else if (this.isSign('{')) {
      this.fail(
        `expected if before ${isElse ? 'the body of else' : 'the body'} (of Rego v0 only name[member] { is accepted)`,
      );
    } else if (!hasValue && !rule.member) {
      this.fail('expected contains, := or if');
    }
    return { value, body, place };
  }

  /** `{ … }` after `if`. If it does not parse as a block, the brace starts a set or object that is the only condition. */
  private ifBlock(): Literal[] {
    const { at } = this;
    let fault: unknown;
    try {
      const body = this.block();
      const continues = this.token.kind === 'sign' && !this.token.newLine && !['}', ';'].includes(this.token.text);
      if (!continues) return body;
    } catch (error) {
      fault = error;
    }
    this.at = at;
    try {
      return [this.literal()];
    } catch (error) {
      throw fault ?? error;
    }
  }

  private block(): Literal[] {
    this.expectSign('{');
    const body = this.body('}');
    this.expectSign('}');
    return body;
  }

  private endOfRule(): void {
    if (!this.token.newLine && this.token.kind !== 'end') this.fail('expected a new line after the rule');
  }

  protected body(end: string): Literal[] {
    const literals: Literal[] = [];
    const atEnd = (): boolean => (end === '' ? this.token.kind === 'end' : this.isSign(end));
    while (!atEnd()) {
      literals.push(this.literal());
      if (!this.takeSign(';') && !atEnd() && !this.token.newLine)
        this.fail('expected a new line or ; between conditions');
    }
    if (literals.length === 0) this.fail('expected a condition');
    return literals;
  }

  private literal(): Literal {
    const { place } = this;
    const literal = this.condition(place);
    literal.with = this.withs();
    return literal;
  }

  private condition(place: Place): Literal {
    const rest = { with: [], place };
    if (this.takeKeyword('not')) {
      if (this.isKeyword('some') || this.isKeyword('every') || this.isKeyword('not'))
        this.fail('expected a term after not');
      return { kind: 'not', literal: this.condition(this.place), ...rest };
    }
    if (this.takeKeyword('some')) return this.some(rest);
    if (this.takeKeyword('every')) {
      const { key, value } = this.pair();
      this.expectKeyword('in');
      return { kind: 'every', key, value, domain: this.term(), body: this.block(), ...rest };
    }
    const left = this.term(true);
    if (this.takeSign(':=')) return { kind: 'assign', left, right: this.term(), ...rest };
    if (this.takeSign('=')) return { kind: 'unify', left, right: this.term(), ...rest };
    return { kind: 'term', term: left, ...rest };
  }

  private some(rest: { with: With[]; place: Place }): Literal {
    // Terms without `in`: it belongs to `some` here.
    const { key, value, more } = this.pair(true);
    if (this.takeKeyword('in')) {
      if (more.length > 0) this.fail('expected one or two variables before in');
      return { kind: 'some_in', key, value, domain: this.term(), ...rest };
    }
    const names = [...(key ? [key] : []), value, ...more].map((term) => (term.kind === 'var' ? term.name : undefined));
    if (names.includes(undefined)) this.fail('expected variables');
    return { kind: 'some', names: names as string[], ...rest };
  }

  private pair(many = false): { key?: Term; value: Term; more: Term[] } {
    const terms = [this.operators(0)];
    const most = many ? Number.POSITIVE_INFINITY : 2;
    while (terms.length < most && this.takeSign(',')) terms.push(this.operators(0));
    const [first, second, ...more] = terms;
    return second ? { key: first, value: second, more } : { value: first!, more };
  }

  private withs(): With[] {
    const withs: With[] = [];
    while (this.isKeyword('with')) {
      const { place } = this;
      this.next();
      const target = this.names();
      this.expectKeyword('as');
      withs.push({ target, value: this.term(), place });
    }
    return withs;
  }
}
