import type { Builtin } from './builtins/operands.js';
import type { Place } from './rego-error.js';
import type { Node } from './rule-tree.js';
import type { RegoValue } from './value.js';

/** A variable: one slot of the frame of its rule. */
export interface Variable {
  name: string;
  slot: number;
}

/** The callee of a call. */
export type Callee = { kind: 'builtin'; name: string; builtin: Builtin } | { kind: 'function'; node: Node };

/** A term with resolved names. */
export type ResolvedTerm =
  | { kind: 'scalar'; value: RegoValue; place: Place }
  | { kind: 'local'; variable: Variable; place: Place }
  | { kind: 'root'; name: 'input' | 'data'; place: Place }
  | { kind: 'ref'; head: ResolvedTerm; path: ResolvedTerm[]; place: Place }
  | { kind: 'array' | 'set'; items: ResolvedTerm[]; place: Place }
  | { kind: 'object'; fields: [ResolvedTerm, ResolvedTerm][]; place: Place }
  | { kind: 'call'; callee: Callee; args: ResolvedTerm[]; place: Place }
  | {
      kind: 'comprehension';
      of: 'array' | 'set' | 'object';
      key?: ResolvedTerm;
      value: ResolvedTerm;
      body: ResolvedLiteral[];
      /** Variables of outer scopes used inside. */
      captured: Set<Variable>;
      place: Place;
    };

export type ResolvedWith =
  | { kind: 'input' | 'data'; path: string[]; value: ResolvedTerm }
  /** `by`: another function, or a value. */
  | { kind: 'function'; callee: Callee; by: Callee | ResolvedTerm };

export type ResolvedLiteral = (
  | { kind: 'term'; term: ResolvedTerm }
  | { kind: 'unify'; left: ResolvedTerm; right: ResolvedTerm }
  | { kind: 'never' }
  | { kind: 'some_in'; key?: ResolvedTerm; value: ResolvedTerm; domain: ResolvedTerm }
  | {
      kind: 'every';
      key?: Variable;
      value: Variable;
      domain: ResolvedTerm;
      body: ResolvedLiteral[];
      captured: Set<Variable>;
    }
  | { kind: 'not'; body: ResolvedLiteral[] }
) & { with: ResolvedWith[]; place: Place };
