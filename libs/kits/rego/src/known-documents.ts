import { at } from './evaluation.js';
import { type Place, RegoError } from './rego-error.js';
import type { ResolvedTerm } from './resolved.js';
import type { RegoValue } from './value.js';

/**
 * Shape of the documents that a policy is evaluated on. A reference to a field that never exists is always undefined, so a rule with such
 * a typo would never deny. With known documents it is a compile error instead.
 */
export interface KnownDocuments {
  data: RegoValue;
  /** Fields of `input`, each with the fields below it, or undefined when those are not known. */
  input: ReadonlyMap<string, ReadonlySet<string> | undefined>;
}

/** @throws RegoError compile_error when `input` has no such field */
export function checkInput({ input }: KnownDocuments, term: ResolvedTerm & { kind: 'ref' }): void {
  const [first, second] = term.path.map((step) => (step.kind === 'scalar' ? step.value : undefined));
  if (typeof first !== 'string') return;
  if (!input.has(first)) throw new RegoError('compile_error', `input has no field ${first}`, term.place);
  const fields = input.get(first);
  if (fields && typeof second === 'string' && !fields.has(second)) {
    throw new RegoError('compile_error', `input.${first} has no field ${second}`, term.place);
  }
}

/** @throws RegoError compile_error when neither a rule nor the data defines the path */
export function checkData({ data }: KnownDocuments, path: readonly string[], place: Place): void {
  if (at(data, path) === undefined)
    throw new RegoError('compile_error', `nothing defines data.${path.join('.')}`, place);
}
