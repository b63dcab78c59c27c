import type { Place } from './rego-error.js';
import type { RegoValue } from './value.js';

/** Output of the parser: names are not resolved yet. */
export type Term =
  | { kind: 'scalar'; value: RegoValue; place: Place }
  | { kind: 'var'; name: string; place: Place }
  | { kind: 'ref'; head: Term; path: Term[]; place: Place }
  | { kind: 'array' | 'set'; items: Term[]; place: Place }
  | { kind: 'object'; fields: [Term, Term][]; place: Place }
  /** `name` is dotted. Operators are calls of `plus`, `equal`, … whatever rules or variables share these names. */
  | { kind: 'call'; name: string[]; operator?: true; args: Term[]; place: Place }
  | { kind: 'comprehension'; of: 'array' | 'set' | 'object'; key?: Term; value: Term; body: Literal[]; place: Place };

/** `with <target> as <value>`. */
export interface With {
  target: string[];
  value: Term;
  place: Place;
}

/** One condition of a body. */
export type Literal = (
  | { kind: 'term'; term: Term }
  | { kind: 'unify'; left: Term; right: Term }
  | { kind: 'assign'; left: Term; right: Term }
  | { kind: 'some'; names: string[] }
  | { kind: 'some_in'; key?: Term; value: Term; domain: Term }
  | { kind: 'every'; key?: Term; value: Term; domain: Term; body: Literal[] }
  | { kind: 'not'; literal: Literal }
) & { with: With[]; place: Place };

/** One body of a rule and the value it gives; the first is the rule's, the others are its `else` branches in order. */
export interface Branch {
  value: Term;
  body: Literal[];
  place: Place;
}

export interface Rule {
  /** The name, then the rest of a reference head. */
  path: Term[];
  /** Present for functions. */
  args?: Term[];
  /** Present for partial sets: their members. */
  member?: Term;
  isDefault: boolean;
  branches: Branch[];
  place: Place;
}

export interface Import {
  path: string[];
  alias: string;
  place: Place;
}

export interface RegoModule {
  file: string;
  package: string[];
  imports: Import[];
  rules: Rule[];
}
