import { at } from './evaluation.js';
import { type Place, RegoError } from './rego-error.js';
import type { ResolvedTerm } from './resolved.js';
import type { Value } from './value.js';

/**
 * What a policy will be evaluated on. A reference to something that is never there is undefined for ever, so the rule it
 * stands in never denies: with the documents known, such a slip is refused when the policy is loaded.
 */
export interface KnownDocuments {
  data: Value;
  /** Fields of `input`, each with the fields below it, or undefined when those are the caller's. */
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
