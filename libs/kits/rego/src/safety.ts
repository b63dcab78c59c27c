import { RegoError } from './rego-error.js';
import type { Callee, ResolvedLiteral, ResolvedTerm, Variable } from './resolved.js';

export type Bound = ReadonlySet<Variable>;

/** Evaluation order of the parts of a composite, and the variables bound afterwards. */
interface Sequence {
  order: number[];
  bound: Bound;
}

/**
 * Modes are static: in each condition every variable is either known or bound there, whatever the data. Each function here
 * answers what is known after a term was evaluated, or null when it cannot be yet.
 */
export function evaluated(term: ResolvedTerm, bound: Bound): Bound | null {
  switch (term.kind) {
    case 'scalar':
    case 'root':
      return bound;
    case 'local':
      return bound.has(term.variable) ? bound : null;
    case 'array':
    case 'set':
      return sequence(term.items, bound, evaluated)?.bound ?? null;
    case 'object':
      return sequence(term.fields.flat(), bound, evaluated)?.bound ?? null;
    case 'call':
      return sequence(term.args, bound, evaluated)?.bound ?? null;
    case 'comprehension':
      return isSubset(term.captured, bound) ? bound : null;
    case 'ref': {
      let known = evaluated(term.head, bound);
      for (const step of term.path) known = known && matched(step, known);
      return known;
    }
  }
}

/** The variables bound after a value was matched against a pattern with new ones. */
export function matched(pattern: ResolvedTerm, bound: Bound): Bound | null {
  switch (pattern.kind) {
    case 'local':
      return bound.has(pattern.variable) ? bound : new Set([...bound, pattern.variable]);
    case 'array':
      return sequence(pattern.items, bound, matched)?.bound ?? null;
    case 'object': {
      const keys = sequence(
        pattern.fields.map(([key]) => key),
        bound,
        evaluated,
      );
      const values = pattern.fields.map(([, value]) => value);
      return keys && (sequence(values, keys.bound, matched)?.bound ?? null);
    }
    default:
      return evaluated(pattern, bound);
  }
}

/** An order in which all terms can be evaluated; null if there is none. */
export function sequence(
  terms: readonly ResolvedTerm[],
  bound: Bound,
  step: (term: ResolvedTerm, bound: Bound) => Bound | null,
): Sequence | null {
  const order: number[] = [];
  let known = bound;
  const waiting = new Set(terms.keys());
  while (waiting.size > 0) {
    const before = waiting.size;
    for (const index of waiting) {
      const then = step(terms[index]!, known);
      if (!then) continue;
      waiting.delete(index);
      order.push(index);
      known = then;
    }
    if (waiting.size === before) return null;
  }
  return { order, bound: known };
}

/** Which side of an equation is evaluated; the other one is matched against its value. */
export function equation(
  left: ResolvedTerm,
  right: ResolvedTerm,
  bound: Bound,
): { evaluate: 'left' | 'right'; bound: Bound } | null {
  const fromRight = evaluated(right, bound);
  const afterRight = fromRight && matched(left, fromRight);
  if (afterRight) return { evaluate: 'right', bound: afterRight };
  const fromLeft = evaluated(left, bound);
  const afterLeft = fromLeft && matched(right, fromLeft);
  return afterLeft ? { evaluate: 'left', bound: afterLeft } : null;
}

/** Number of inputs of a function. A call with one more matches the last argument with the result. */
export function inputCount(callee: Callee): number {
  return callee.kind === 'builtin' ? callee.builtin.arity : callee.node.arity;
}

/** The variables bound after a condition; null if it must be evaluated later. */
function after(literal: ResolvedLiteral, bound: Bound): Bound | null {
  for (const modifier of literal.with) {
    const value = modifier.kind === 'function' ? modifier.by : modifier.value;
    // Values of `with` bind no variables of the body.
    if (value.kind !== 'builtin' && value.kind !== 'function' && evaluated(value, bound) === null) return null;
  }
  switch (literal.kind) {
    case 'never':
      return bound;
    case 'term': {
      const { term } = literal;
      if (term.kind !== 'call' || term.args.length !== inputCount(term.callee) + 1) return evaluated(term, bound);
      const inputs = sequence(term.args.slice(0, -1), bound, evaluated);
      return inputs && matched(term.args.at(-1)!, inputs.bound);
    }
    case 'unify':
      return equation(literal.left, literal.right, bound)?.bound ?? null;
    case 'some_in': {
      const known = evaluated(literal.domain, bound);
      return (
        known && (sequence(literal.key ? [literal.key, literal.value] : [literal.value], known, matched)?.bound ?? null)
      );
    }
    case 'every': {
      const known = evaluated(literal.domain, bound);
      const own = new Set([literal.value, ...(literal.key ? [literal.key] : [])]);
      const free = [...literal.captured].filter((variable) => !own.has(variable));
      return known && isSubset(new Set(free), known) ? known : null;
    }
    case 'not':
      return isSubset(usedVariables(literal.body), bound) ? bound : null;
  }
}

/**
 * The conditions in an order in which each can be worked, as near to the written one as that allows.
 * @throws RegoError unsafe_var when there is none
 */
export function ordered(
  body: readonly ResolvedLiteral[],
  bound: Bound,
): { literals: { literal: ResolvedLiteral; bound: Bound }[]; bound: Bound } {
  const literals: { literal: ResolvedLiteral; bound: Bound }[] = [];
  const waiting = new Set(body);
  let known = bound;
  while (waiting.size > 0) {
    let next: ResolvedLiteral | undefined;
    let then: Bound | null = null;
    for (const literal of waiting) {
      then = after(literal, known);
      if (then) {
        next = literal;
        break;
      }
    }
    if (!next || !then) {
      const [stuck] = waiting;
      const unsafe = [...usedVariables([stuck!])].find((variable) => !known.has(variable));
      throw new RegoError(
        'unsafe_var',
        `variable ${unsafe?.name ?? '_'} is unsafe: nothing gives it a value`,
        stuck!.place,
      );
    }
    waiting.delete(next);
    literals.push({ literal: next, bound: known });
    known = then;
  }
  return { literals, bound: known };
}

/** Variables of conditions that belong to their scope or to an outer one. */
function usedVariables(body: readonly ResolvedLiteral[]): Set<Variable> {
  const found = new Set<Variable>();
  const term = (node: ResolvedTerm): void => {
    if (node.kind === 'local') found.add(node.variable);
    else if (node.kind === 'ref') [node.head, ...node.path].forEach(term);
    else if (node.kind === 'call') node.args.forEach(term);
    else if (node.kind === 'array' || node.kind === 'set') node.items.forEach(term);
    else if (node.kind === 'object') node.fields.flat().forEach(term);
    else if (node.kind === 'comprehension') for (const variable of node.captured) found.add(variable);
  };
  for (const literal of body) {
    for (const modifier of literal.with) {
      const value = modifier.kind === 'function' ? modifier.by : modifier.value;
      if (value.kind !== 'builtin' && value.kind !== 'function') term(value);
    }
    if (literal.kind === 'term') term(literal.term);
    else if (literal.kind === 'unify') [literal.left, literal.right].forEach(term);
    else if (literal.kind === 'some_in')
      [literal.domain, literal.value, ...(literal.key ? [literal.key] : [])].forEach(term);
    else if (literal.kind === 'every') {
      term(literal.domain);
      for (const variable of literal.captured)
        if (variable !== literal.key && variable !== literal.value) found.add(variable);
    } else if (literal.kind === 'not') for (const variable of usedVariables(literal.body)) found.add(variable);
  }
  return found;
}

function isSubset(part: ReadonlySet<Variable>, whole: Bound): boolean {
  return [...part].every((variable) => whole.has(variable));
}
