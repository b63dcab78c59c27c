/**
 * The child process that evaluates selections. Expressions and documents come from outside, so their time and memory cannot be
 * foreseen: the pool kills this process when the time is up.
 */
import { SIZES } from '@toolfleet/contracts/subjects';
import { serveJobs } from '@toolfleet/resilience/child-program';
import { boundedMatcher } from '@toolfleet/bounded-schema';
import { selectFrom, type SelectExpression } from '@toolfleet/bounded-schema/select';

/** A job of a child. */
export interface SelectJob {
  document: string;
  selection: SelectExpression;
}

/**
 * The JSONPath library runs the patterns of `match` and `search` by calling `RegExp(pattern, 'u')`. V8's engine backtracks, so in
 * this process that call gives a matcher of linear time. `new RegExp` and regular expression literals are unchanged.
 */
const NativeRegExp = globalThis.RegExp;
globalThis.RegExp = new Proxy(NativeRegExp, {
  apply: (_target, _this, [pattern, flags]: [string, string]) => boundedMatcher(pattern, flags),
});

serveJobs(
  async ({ document, selection }: SelectJob) =>
    () =>
      selectFrom(document, selection),
  SIZES.toolResult,
);
