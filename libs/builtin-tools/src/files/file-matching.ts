import type { JsonObject } from '@toolfleet/contracts';
import { TextSearch } from '@toolfleet/contracts/text';
import { boundedMatcher } from '@toolfleet/bounded-schema';

/** Maximum length of a glob pattern, and maximum number of alternatives from its braces. */
const MAX_PATTERN = 200;
const MAX_ALTERNATIVES = 64;

/** Tests the names of a path. A pattern without `/` is compared with the last name only. */
export type GlobMatcher = (names: readonly string[]) => boolean;

/**
 * Compiles a glob pattern with `*`, `?`, `[a-z]`, `[!a]` and `{a,b}` within a name, and `**` for any number of names. Patterns come
 * from models, so they run on the engine that takes linear time.
 * @throws Error if the pattern is too long, has too many alternatives, or is invalid
 */
export function globMatcher(pattern: string): GlobMatcher {
  if (pattern.length > MAX_PATTERN) throw new RangeError(`pattern is longer than ${MAX_PATTERN} characters`);
  const matchers = expandBraces(pattern.replace(/^\.\//, '')).map((one) => boundedMatcher(toExpression(one), 'u'));
  return (names) => matchers.some((matcher) => matcher.test(`${names.join('/')}/`));
}

/** A glob without braces as an expression of a path whose names end in `/` each. */
function toExpression(glob: string): string {
  const parts = glob.split('/').filter((name) => name !== '');
  if (parts.length === 1) parts.unshift('**');
  const names = parts.map((part) => (part === '**' ? '(?:[^/]+/)*' : `${part.replaceAll(STEPS, toStep)}/`));
  return `^${names.join('')}$`;
}

const STEPS = /\[!?\]?[^\]]*\]|[\s\S]/gu;

function toStep(step: string): string {
  if (step === '*') return '[^/]*';
  if (step === '?') return '[^/]';
  const [, negation, members] = /^\[(!?)([\s\S]+)\]$/.exec(step) ?? [];
  if (members === undefined) return step.replace(/[\\^$.*+?()[\]{}|/]/, String.raw`\$&`);
  return `[${negation && '^/'}${members.replaceAll(/[\\^[\]]|^-/g, String.raw`\$&`)}]`;
}

function expandBraces(pattern: string): string[] {
  let open = [pattern];
  for (;;) {
    const next = open.flatMap((one) => {
      const braces = /\{([^{}]*,[^{}]*)\}/.exec(one);
      if (!braces) return [one];
      const [before, after] = [one.slice(0, braces.index), one.slice(braces.index + braces[0].length)];
      return (braces[1] as string).split(',').map((choice) => before + choice + after);
    });
    if (next.length > MAX_ALTERNATIVES) throw new RangeError(`pattern has more than ${MAX_ALTERNATIVES} alternatives`);
    if (next.length === open.length && next.every((one, index) => one === open[index])) return next;
    open = next;
  }
}

/** A search for lines that `file_search` may send to the child process. */
export interface LineSearch {
  files: { path: string; text: string }[];
  query: string;
  /** The query is a regular expression, matched by a linear-time engine. */
  useRegex: boolean;
  ignoreCase: boolean;
  /** Maximum number of matches. */
  limit: number;
}

/** Matching lines; `more`: there are further ones. */
export interface FoundLines {
  matches: JsonObject[];
  more: boolean;
}

const MAX_LINE = 400;

/**
 * Finds the matching lines of files, in order.
 * @throws Error for an invalid pattern, or one that cannot be matched in linear time
 */
export function searchLines(search: LineSearch): FoundLines {
  const matches = lineMatcher(search);
  const found: JsonObject[] = [];
  for (const { path, text } of search.files) {
    let number = 0;
    for (const line of splitLines(text)) {
      number += 1;
      if (!matches(line)) continue;
      if (found.length >= search.limit) return { matches: found, more: true };
      found.push({ path, line: number, text: line.trimEnd().slice(0, MAX_LINE) });
    }
  }
  return { matches: found, more: false };
}

function lineMatcher({ query, useRegex, ignoreCase }: LineSearch): (line: string) => boolean {
  if (!useRegex) {
    const wanted = new TextSearch(ignoreCase ? query.toLowerCase() : query);
    return (line) => wanted.next(ignoreCase ? line.toLowerCase() : line) >= 0;
  }
  const matcher = boundedMatcher(query, ignoreCase ? 'iu' : 'u');
  return (line) => matcher.test(line);
}

/** Yields one line at a time, because the list of lines of a file of empty lines would take fifty times its size. */
function* splitLines(text: string): Generator<string> {
  let from = 0;
  for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n', from)) {
    yield text.slice(from, end);
    from = end + 1;
  }
  yield text.slice(from);
}
