import { inputCount, type Bound, evaluated, matched, sequence } from './safety.js';
import { at, call, type Det, type Frame, type Goal, lookupData } from './evaluation.js';
import { checkData, checkInput, type KnownDocuments } from './known-documents.js';
import { type Place, RegoError } from './rego-error.js';
import type { ResolvedLiteral, ResolvedTerm } from './resolved.js';
import type { Node, RuleTree } from './rule-tree.js';
import type { FrameLayout } from './scope.js';
import {
  all,
  collect,
  type Collector,
  comparison,
  iterate,
  lookupIn,
  buildObject,
  type ClosureStep,
  store,
} from './term-closures.js';
import { equal, isArray, isObject, objectKeys, lookup, RegoObject, RegoSet, type RegoValue } from './value.js';

/** Inputs of the compiler of one rule. */
interface CompileContext {
  tree: RuleTree;
  layout: FrameLayout;
  /** Called for every node that a rule may use, to detect recursion. */
  uses(node: Node): void;
  /** If the documents are known at load, references to fields that they never have are refused. */
  known?: KnownDocuments | undefined;
}

/** Continuation with the value of a term from `det`, and the variables bound by then. */
type Continue = (det: Det, bound: Bound) => Goal;

/**
 * Terms as closures. A term with known variables has one value (`det`); another one has a value for each way to
 * choose them, walked by `lower`. Continuations are put together here, once; running allocates none.
 */
export abstract class TermCompiler {
  constructor(protected readonly context: CompileContext) {}

  protected abstract conditions(body: readonly ResolvedLiteral[], bound: Bound, next: (bound: Bound) => Goal): Goal;

  /** Enumerates all values of a term. */
  lower(term: ResolvedTerm, bound: Bound, next: Continue): Goal {
    if (evaluated(term, bound) === bound) return next(this.det(term, bound), bound);
    switch (term.kind) {
      case 'array':
      case 'set':
        return this.parts(term.items, bound, (items, known) => next(this.det({ ...term, items }, known), known));
      case 'object':
        return this.parts(term.fields.flat(), bound, (flat, known) => {
          const fields = term.fields.map((_, i): [ResolvedTerm, ResolvedTerm] => [flat[2 * i]!, flat[2 * i + 1]!]);
          return next(this.det({ ...term, fields }, known), known);
        });
      case 'call':
        return this.parts(term.args, bound, (args, known) => next(this.det({ ...term, args }, known), known));
      case 'ref':
        return this.parts([term.head], bound, ([head], known) => this.steps({ ...term, head: head! }, known, next));
      default:
        throw new RegoError('unsafe_var', 'variable is unsafe: nothing gives it a value', term.place);
    }
  }

  /** Continues with every solution of matching `pattern` with `value`. */
  match(pattern: ResolvedTerm, bound: Bound, value: Det, next: (bound: Bound) => Goal): Goal {
    if (pattern.kind === 'local' && !bound.has(pattern.variable)) {
      const { slot } = pattern.variable;
      const then = next(new Set([...bound, pattern.variable]));
      return (e, f) => {
        const found = value(e, f);
        if (found === undefined) return false;
        f[slot] = found;
        return then(e, f);
      };
    }
    if (evaluated(pattern, bound) !== bound) {
      if (pattern.kind === 'array') return this.matchArray(pattern.items, bound, value, next);
      if (pattern.kind === 'object') return this.matchObject(pattern.fields, bound, value, next);
    }
    return this.lower(pattern, bound, (det, known) => {
      const then = next(known);
      return (e, f) => {
        const found = value(e, f);
        const wanted = found === undefined ? undefined : det(e, f);
        return wanted !== undefined && equal(found!, wanted) && then(e, f);
      };
    });
  }

  /** A term with bound variables. */
  det(term: ResolvedTerm, bound: Bound): Det {
    switch (term.kind) {
      case 'scalar': {
        const { value } = term;
        return () => value;
      }
      case 'local': {
        const { slot } = term.variable;
        return (_, f) => f[slot];
      }
      case 'root':
        if (term.name === 'input') return (e) => e.input;
        return this.node(this.context.tree.root, term.place);
      case 'array': {
        const items = term.items.map((item) => this.det(item, bound));
        return (e, f) => all(items, e, f);
      }
      case 'set': {
        const items = term.items.map((item) => this.det(item, bound));
        return (e, f) => {
          const values = all(items, e, f);
          return values && new RegoSet(values);
        };
      }
      case 'object':
        return buildObject(term.fields.map(([key, value]) => [this.det(key, bound), this.det(value, bound)]));
      case 'call':
        return this.call(term, bound);
      case 'comprehension':
        return this.comprehension(term, bound);
      case 'ref': {
        const { det, rest, step: take } = this.base(term, bound);
        return rest.reduce((from, step) => lookupIn(from, this.det(step, bound), take), det);
      }
    }
  }

  private call(term: ResolvedTerm & { kind: 'call' }, bound: Bound): Det {
    const { callee } = term;
    if (term.args.length !== inputCount(callee))
      throw new RegoError('compile_error', 'wrong number of arguments', term.place);
    if (callee.kind === 'function') this.context.uses(callee.node);
    const args = term.args.map((arg) => this.det(arg, bound));
    if (callee.kind === 'builtin' && (callee.name === 'equal' || callee.name === 'neq')) {
      return comparison(args[0]!, args[1]!, callee.name === 'equal', callee);
    }
    return (e, f) => {
      const values = all(args, e, f);
      return values && call(e, callee, values);
    };
  }

  private comprehension(term: ResolvedTerm & { kind: 'comprehension' }, bound: Bound): Det {
    const { slot } = this.context.layout.variable('comprehension');
    const heads = term.key ? [term.key, term.value] : [term.value];
    const goal = this.conditions(term.body, bound, (known) =>
      this.each(heads, known, (values, f) => collect(f[slot] as Collector, values)),
    );
    return (e, f) => {
      const collected: Collector = term.of === 'array' ? [] : term.of === 'set' ? new RegoSet() : new RegoObject();
      f[slot] = collected;
      goal(e, f);
      return collected;
    };
  }

  /** Evaluates terms one after the other. A term with several values stores the current one in a slot. */
  protected parts(
    terms: readonly ResolvedTerm[],
    bound: Bound,
    next: (terms: ResolvedTerm[], bound: Bound) => Goal,
  ): Goal {
    const plan = sequence(terms, bound, evaluated);
    if (!plan) throw new RegoError('unsafe_var', 'variable is unsafe: nothing gives it a value', terms[0]!.place);
    const done = [...terms];
    const work = (position: number, known: Bound): Goal => {
      const index = plan.order[position];
      if (index === undefined) return next(done, known);
      const term = terms[index]!;
      if (evaluated(term, known) === known) return work(position + 1, known);
      return this.lower(term, known, (det, after) => {
        const variable = this.context.layout.variable('part');
        done[index] = { kind: 'local', variable, place: term.place };
        const then = work(position + 1, new Set([...after, variable]));
        return store(variable.slot, det, then);
      });
    };
    return work(0, bound);
  }

  /** Continues with every combination of the values of several terms. */
  each(terms: readonly ResolvedTerm[], bound: Bound, found: (values: RegoValue[], frame: Frame) => void): Goal {
    return this.parts(terms, bound, (parts, known) => {
      const dets = parts.map((part) => this.det(part, known));
      return (e, f) => {
        const values = all(dets, e, f);
        if (values) found(values, f);
        return false;
      };
    });
  }

  private matchArray(items: readonly ResolvedTerm[], bound: Bound, value: Det, next: (bound: Bound) => Goal): Goal {
    const { slot } = this.context.layout.variable('array');
    const element =
      (index: number): Det =>
      (_, f) =>
        (f[slot] as readonly RegoValue[])[index];
    const then = this.matchAll(items, bound, element, next);
    return (e, f) => {
      const found = value(e, f);
      if (found === undefined || !isArray(found) || found.length !== items.length) return false;
      f[slot] = found;
      return then(e, f);
    };
  }

  private matchObject(
    fields: readonly [ResolvedTerm, ResolvedTerm][],
    bound: Bound,
    value: Det,
    next: (bound: Bound) => Goal,
  ): Goal {
    const { slot } = this.context.layout.variable('object');
    const keys = fields.map(([key]) => key);
    return this.parts(keys, bound, (parts, known) => {
      const dets = parts.map((key) => this.det(key, known));
      const field =
        (index: number): Det =>
        (e, f) => {
          const key = dets[index]!(e, f);
          return key === undefined ? undefined : lookup(f[slot]!, key);
        };
      const patterns = fields.map(([, pattern]) => pattern);
      const then = this.matchAll(patterns, known, field, next);
      return (e, f) => {
        const found = value(e, f);
        if (found === undefined || !isObject(found) || objectKeys(found).length !== fields.length) return false;
        f[slot] = found;
        return then(e, f);
      };
    });
  }

  /** Matches each pattern with its value, in an order in which all needed variables are bound. */
  matchAll(
    patterns: readonly ResolvedTerm[],
    bound: Bound,
    value: (index: number) => Det,
    next: (bound: Bound) => Goal,
  ): Goal {
    const plan = sequence(patterns, bound, matched);
    if (!plan) throw new RegoError('unsafe_var', 'variable is unsafe: nothing gives it a value', patterns[0]!.place);
    const work = (position: number, known: Bound): Goal => {
      const index = plan.order[position];
      if (index === undefined) return next(known);
      return this.match(patterns[index]!, known, value(index), (after) => work(position + 1, after));
    };
    return work(0, bound);
  }

  /** The steps of a reference with a known head. Some enumerate all keys. */
  private steps(term: ResolvedTerm & { kind: 'ref' }, bound: Bound, next: Continue): Goal {
    const { det, rest, step: take } = this.base(term, bound);
    const walk = (from: Det, position: number, known: Bound): Goal => {
      const step = rest[position];
      if (step === undefined) return next(from, known);
      if (evaluated(step, known) === known)
        return walk(lookupIn(from, this.det(step, known), take), position + 1, known);
      if (matched(step, known) !== null && isPattern(step))
        return this.choose(from, step, known, (d, b) => walk(d, position + 1, b));
      return this.lower(step, known, (key, after) => walk(lookupIn(from, key, take), position + 1, after));
    };
    return walk(det, 0, bound);
  }

  private choose(from: Det, step: ResolvedTerm, bound: Bound, next: Continue): Goal {
    const key = this.context.layout.variable('key').slot;
    const value = this.context.layout.variable('value').slot;
    const then = this.match(
      step,
      bound,
      (_, f) => f[key],
      (known) => next((_, f) => f[value], known),
    );
    return (e, f) => {
      const whole = from(e, f);
      return whole !== undefined && iterate(e, whole, f, key, value, then);
    };
  }

  /** The longest part of a reference that is known at compile time, and the steps after it. */
  private base(
    term: ResolvedTerm & { kind: 'ref' },
    bound: Bound,
  ): { det: Det; rest: ResolvedTerm[]; step: ClosureStep } {
    const { known } = this.context;
    if (term.head.kind !== 'root' || term.head.name !== 'data') {
      if (known && term.head.kind === 'root') checkInput(known, term);
      return { det: this.det(term.head, bound), rest: term.path, step: lookup };
    }
    let node = this.context.tree.root;
    const names: string[] = [];
    for (const step of term.path) {
      if (step.kind !== 'scalar' || (typeof step.value !== 'string' && typeof step.value !== 'number')) break;
      const name = String(step.value);
      names.push(name);
      const child: Node | undefined = node.children.get(name);
      // No rules below: the rest is plain data.
      if (!child) {
        if (known) checkData(known, names, term.place);
        const parent = names.slice(0, -1);
        return { det: (e) => at(e.data, parent), rest: term.path.slice(parent.length), step: lookupData };
      }
      node = child;
      if (node.hasValue) break;
    }
    return { det: this.node(node, term.place), rest: term.path.slice(names.length), step: lookup };
  }

  private node(node: Node, place: Place): Det {
    if (node.isFunction) throw new RegoError('compile_error', `${node.path.join('.')} is a function`, place);
    this.context.uses(node);
    return (e) => e.evaluate(node);
  }
}

const isPattern = (term: ResolvedTerm): boolean =>
  term.kind === 'local' || term.kind === 'array' || term.kind === 'object';
