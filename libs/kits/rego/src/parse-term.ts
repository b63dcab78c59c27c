import type { Literal, Term } from './ast.js';
import { type Place, RegoError } from './rego-error.js';
import { TokenReader } from './token-reader.js';
import type { RegoValue } from './value.js';

/** Infix operators by precedence, lowest first. `in` has an even lower one and is parsed by `term`. */
const LEVELS: readonly Record<string, string>[] = [
  { '==': 'equal', '!=': 'neq', '<': 'lt', '>': 'gt', '<=': 'lte', '>=': 'gte' },
  { '|': 'or' },
  { '&': 'and' },
  { '+': 'plus', '-': 'minus' },
  { '*': 'mul', '/': 'div', '%': 'rem' },
];
/** Deeper than any real policy; limits the stack of the parser. */
const MAX_DEPTH = 200;
const MAX_ATTEMPTS = 200;
/** Level of the operators with higher precedence than `|`. */
const BELOW_UNION = 2;

/** Terms: values, references, calls, operators, comprehensions. */
export abstract class TermParser extends TokenReader {
  private depth = 0;
  private attempts = 0;

  /** Conditions separated by newlines or `;`, up to `end` (not consumed). */
  protected abstract body(end: string): Literal[];

  /** A term with operators, `x in xs` and, if `pair` is set, `k, v in xs`. `start`: its first operand, if already parsed. */
  protected term(pair = false, start?: Term): Term {
    const { place } = this;
    let left = this.operators(0, start);
    if (pair && this.isSign(',')) {
      const mark = this.at;
      this.next();
      const value = this.operators(0);
      if (this.takeKeyword('in')) left = call('internal.member_3', [left, value, this.operators(0)], place);
      else this.at = mark;
    }
    while (this.takeKeyword('in')) left = call('internal.member_2', [left, this.operators(0)], place);
    return left;
  }

  /** A term with operators of this level and of higher precedence. */
  protected operators(level: number, start?: Term): Term {
    const names = LEVELS[level];
    if (!names) return start ?? this.primary();
    const { place } = this;
    let left = this.operators(level + 1, start);
    while (this.token.kind === 'sign' && Object.hasOwn(names, this.token.text)) {
      const name = names[this.next().text]!;
      left = call(name, [left, this.operators(level + 1)], place);
    }
    return left;
  }

  private primary(): Term {
    if (++this.depth > MAX_DEPTH) this.fail('nested too deeply');
    const { place } = this;
    const term = this.path(this.head(), place);
    this.depth--;
    return term;
  }

  /** `.name`, `[term]` and `(args)` that follow without a space. */
  private path(head: Term, place: Place): Term {
    let term = head;
    for (;;) {
      if (!this.token.glued || this.token.kind !== 'sign') return term;
      if (this.takeSign('.')) {
        const at = this.place;
        term = extend(term, scalar(this.nameAfterDot(), at), place);
      } else if (this.takeSign('[')) {
        term = extend(term, this.term(), place);
        this.expectSign(']');
      } else if (this.isSign('(')) {
        const name = dottedName(term);
        if (!name) this.fail('only a name can be called');
        this.next();
        term = { kind: 'call', name, args: this.list(')'), place };
      } else {
        return term;
      }
    }
  }

  private head(): Term {
    const { place, token } = this;
    if (token.kind === 'string') return scalar(this.next().text, place);
    if (token.kind === 'number') return scalar(this.number(), place);
    if (token.kind === 'name') return this.word(place);
    if (this.takeSign('-')) {
      if (this.token.kind !== 'number' || !this.token.glued) this.fail('expected a number after -');
      return scalar(negate(this.number()), place);
    }
    if (this.takeSign('(')) {
      const term = this.term(true);
      this.expectSign(')');
      return term;
    }
    if (this.takeSign('[')) return this.arrayTerm(place);
    if (this.takeSign('{')) return this.braces(place);
    return this.fail('expected a term');
  }

  private number(): number | bigint {
    return parseNumber(this.token.text) === undefined
      ? this.fail('number out of range')
      : parseNumber(this.next().text)!;
  }

  private word(place: Place): Term {
    if (this.keywordHere()) {
      const word = this.token.text;
      if (word !== 'true' && word !== 'false' && word !== 'null') this.fail('expected a term');
      this.next();
      return scalar(word === 'null' ? null : word === 'true', place);
    }
    const name = this.next().text;
    if (name === 'set' && this.isSign('(') && this.token.glued && this.following.text === ')') {
      this.at += 2;
      return { kind: 'set', items: [], place };
    }
    return { kind: 'var', name, place };
  }

  private arrayTerm(place: Place): Term {
    if (this.takeSign(']')) return { kind: 'array', items: [], place };
    const value = this.operators(BELOW_UNION);
    const body = this.comprehensionBody(']');
    if (body) return { kind: 'comprehension', of: 'array', value, body, place };
    return { kind: 'array', items: this.rest(this.term(false, value), ']'), place };
  }

  private braces(place: Place): Term {
    if (this.takeSign('}')) return { kind: 'object', fields: [], place };
    const value = this.operators(BELOW_UNION);
    const body = this.comprehensionBody('}');
    if (body) return { kind: 'comprehension', of: 'set', value, body, place };
    const first = this.term(false, value);
    if (!this.takeSign(':')) return { kind: 'set', items: this.rest(first, '}'), place };
    return this.objectTerm(first, place);
  }

  private objectTerm(key: Term, place: Place): Term {
    const value = this.operators(BELOW_UNION);
    const body = this.comprehensionBody('}');
    if (body) return { kind: 'comprehension', of: 'object', key, value, body, place };
    const fields: [Term, Term][] = [[key, this.term(false, value)]];
    while (this.takeSign(',') && !this.isSign('}')) {
      const name = this.term();
      this.expectSign(':');
      fields.push([name, this.term()]);
    }
    this.expectSign('}');
    return { kind: 'object', fields, place };
  }

  /**
   * `| body` and the end, or undefined with nothing consumed: `|` is also union, so when it is not followed by a body it is given
   * up. How often is bounded, since each nested attempt may double the work.
   */
  private comprehensionBody(end: string): Literal[] | undefined {
    if (!this.isSign('|')) return undefined;
    const { at, depth } = this;
    try {
      this.next();
      const body = this.body(end);
      this.expectSign(end);
      return body;
    } catch (error) {
      if (!(error instanceof RegoError) || ++this.attempts > MAX_ATTEMPTS) throw error;
      this.at = at;
      this.depth = depth;
      return undefined;
    }
  }

  /** The terms after `first` up to `end` (consumed). */
  private rest(first: Term, end: string): Term[] {
    if (this.takeSign(end)) return [first];
    this.expectSign(',');
    return [first, ...this.list(end)];
  }

  /** Terms up to `end` (consumed). A trailing comma is allowed. */
  protected list(end: string): Term[] {
    const items: Term[] = [];
    while (!this.takeSign(end)) {
      items.push(this.term());
      if (!this.takeSign(',') && !this.isSign(end)) this.fail(`expected , or ${end}`);
    }
    return items;
  }
}

export function scalar(value: RegoValue, place: Place): Term {
  return { kind: 'scalar', value, place };
}

function call(name: string, args: Term[], place: Place): Term {
  return { kind: 'call', name: [name], operator: true, args, place };
}

/** A term with one more step. */
export function extend(term: Term, step: Term, place: Place): Term {
  return term.kind === 'ref'
    ? { ...term, path: [...term.path, step] }
    : { kind: 'ref', head: term, path: [step], place };
}

/** `a.b.c` as a list of names; undefined for other terms. */
export function dottedName(term: Term): string[] | undefined {
  if (term.kind === 'var') return [term.name];
  if (term.kind !== 'ref' || term.head.kind !== 'var') return undefined;
  const names = term.path.map((step) =>
    step.kind === 'scalar' && typeof step.value === 'string' ? step.value : undefined,
  );
  return names.includes(undefined) ? undefined : [term.head.name, ...(names as string[])];
}

/** Parses a number: integers exactly, fractions in double precision. Undefined if it is out of range. */
export function parseNumber(text: string): number | bigint | undefined {
  const number = Number(text);
  if (Number.isSafeInteger(number)) return number;
  if (/^-?[0-9]+$/.test(text)) return BigInt(text);
  if (Number.isFinite(number)) return number;
  const [, digits, exponent] = /^(-?[0-9]+)[eE]\+?([0-9]+)$/.exec(text) ?? [];
  return digits !== undefined && Number(exponent) <= 400 ? BigInt(digits) * 10n ** BigInt(exponent!) : undefined;
}

function negate(value: number | bigint): RegoValue {
  return typeof value === 'bigint' ? -value : 0 - value;
}
