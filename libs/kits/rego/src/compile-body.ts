import { TermCompiler } from './compile-term.js';
import { iterate } from './term-closures.js';
import { type Det, type Evaluation, type Frame, type Goal, calleeName } from './evaluation.js';
import type { Callee, ResolvedLiteral, ResolvedTerm, ResolvedWith } from './resolved.js';
import { inputCount, type Bound, equation, ordered } from './safety.js';
import { isArray, isObject, RegoSet, type RegoValue } from './value.js';

type NextLiteral = (bound: Bound) => Goal;
const DONE: Goal = () => true;

/** Compiles conditions to closures. Each one runs the following ones for every solution that it finds. */
export class BodyCompiler extends TermCompiler {
  conditions(body: readonly ResolvedLiteral[], bound: Bound, next: NextLiteral): Goal {
    const plan = ordered(body, bound);
    const work = (position: number, known: Bound): Goal => {
      const entry = plan.literals[position];
      return entry ? this.modified(entry.literal, known, (after) => work(position + 1, after)) : next(known);
    };
    return work(0, bound);
  }

  /** A condition with its `with` modifiers. The following conditions run with the original documents. */
  private modified(literal: ResolvedLiteral, bound: Bound, next: NextLiteral): Goal {
    if (literal.with.length === 0) return this.condition(literal, bound, next);
    const { slot } = this.context.layout.variable('with');
    const inner = this.condition(literal, bound, (known) => {
      const then = next(known);
      return (_, f) => then(f[slot] as unknown as Evaluation, f);
    });
    const terms = literal.with.flatMap(computedTerms);
    return this.parts(terms, bound, (parts, known) => {
      const values = parts.map((part) => this.det(part, known));
      const changes = literal.with.map((modifier) =>
        this.change(modifier, computedTerms(modifier).length > 0 ? values.shift()! : undefined),
      );
      return (e, f) => {
        let changed: Evaluation | undefined = e;
        for (const change of changes) changed = changed && change(changed, e, f);
        if (!changed) return false;
        f[slot] = e as unknown as RegoValue;
        return inner(changed, f);
      };
    });
  }

  /** The values of all modifiers are computed with the original documents. */
  private change(
    modifier: ResolvedWith,
    value: Det | undefined,
  ): (to: Evaluation, from: Evaluation, f: Frame) => Evaluation | undefined {
    if (modifier.kind === 'function' && !value) {
      const by = modifier.by as Callee;
      if (by.kind === 'function') this.context.uses(by.node);
      return (to) => to.withMock(calleeName(modifier.callee), { kind: 'callee', callee: by });
    }
    return (to, from, f) => {
      const found = value!(from, f);
      if (found === undefined) return undefined;
      if (modifier.kind === 'function')
        return to.withMock(calleeName(modifier.callee), { kind: 'value', value: found });
      return modifier.kind === 'input' ? to.withInput(modifier.path, found) : to.withData(modifier.path, found);
    };
  }

  private condition(literal: ResolvedLiteral, bound: Bound, next: NextLiteral): Goal {
    switch (literal.kind) {
      case 'never':
        return () => false;
      case 'term':
        return this.truth(literal, bound, next);
      case 'unify': {
        const plan = equation(literal.left, literal.right, bound)!;
        const [source, pattern] =
          plan.evaluate === 'right' ? [literal.right, literal.left] : [literal.left, literal.right];
        return this.lower(source, bound, (det, known) => this.match(pattern, known, det, next));
      }
      case 'some_in':
        return this.someIn(literal, bound, next);
      case 'every':
        return this.every(literal, bound, next);
      case 'not': {
        const inner = this.conditions(literal.body, bound, () => DONE);
        const then = next(bound);
        return (e, f) => !inner(e, f) && then(e, f);
      }
    }
  }

  /** A term that must be neither undefined nor false. A call with one extra argument matches it with the result. */
  private truth(literal: ResolvedLiteral & { kind: 'term' }, bound: Bound, next: NextLiteral): Goal {
    const { term } = literal;
    if (term.kind === 'call' && term.args.length === inputCount(term.callee) + 1) {
      const output = term.args.at(-1)!;
      const direct = { ...term, args: term.args.slice(0, -1) };
      return this.lower(direct, bound, (det, known) => this.match(output, known, det, next));
    }
    return this.lower(term, bound, (det, known) => {
      const then = next(known);
      return (e, f) => {
        const value = det(e, f);
        return value !== undefined && value !== false && then(e, f);
      };
    });
  }

  private someIn(literal: ResolvedLiteral & { kind: 'some_in' }, bound: Bound, next: NextLiteral): Goal {
    const key = this.context.layout.variable('key').slot;
    const value = this.context.layout.variable('value').slot;
    return this.lower(literal.domain, bound, (domain, known) => {
      const patterns = literal.key ? [literal.value, literal.key] : [literal.value];
      const slots = [value, key];
      const then = this.matchAll(patterns, known, (i) => (_, f) => f[slots[i]!], next);
      return (e, f) => {
        const whole = domain(e, f);
        return whole !== undefined && iterate(e, whole, f, key, value, then);
      };
    });
  }

  private every(literal: ResolvedLiteral & { kind: 'every' }, bound: Bound, next: NextLiteral): Goal {
    const key = literal.key?.slot ?? this.context.layout.variable('key').slot;
    const value = literal.value.slot;
    return this.lower(literal.domain, bound, (domain, known) => {
      const inside = new Set([...known, literal.value, ...(literal.key ? [literal.key] : [])]);
      const body = this.conditions(literal.body, inside, () => DONE);
      const fails: Goal = (e, f) => !body(e, f);
      const then = next(known);
      return (e, f) => {
        const whole = domain(e, f);
        if (whole === undefined || !isCollection(whole)) return false;
        return !iterate(e, whole, f, key, value, fails) && then(e, f);
      };
    });
  }
}

/** The term that a modifier computes, unless it is a plain function. */
function computedTerms(modifier: ResolvedWith): ResolvedTerm[] {
  const value = modifier.kind === 'function' ? modifier.by : modifier.value;
  return value.kind === 'builtin' || value.kind === 'function' ? [] : [value];
}

function isCollection(value: RegoValue): boolean {
  return isArray(value) || isObject(value) || value instanceof RegoSet;
}
