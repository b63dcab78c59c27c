import type { JsonObject } from '@toolfleet/contracts';
import { TextSearch } from '@toolfleet/contracts/text';
import { boundedMatcher } from '@toolfleet/bounded-schema';

/** Maximum length of a glob pattern, and maximum number of alternatives from its braces. */
const MAX_PATTERN = 200;
const MAX_ALTERNATIVES = 64;

/** Tests the names of a path. A pattern without `/` is compared with the last name only. */
export type GlobMatcher = (names: readonly string[]) => boolean;

/**
 * Compiles a glob pattern with `*`, `?`, `[a-z]`, `[!a]` and `{a,b}` within a name, and `**` for any number of names. Matching
 * takes time proportional to pattern × path. Patterns come from models, and a regular expression made from a glob can take
 * exponential time.
 * @throws RangeError if the pattern is too long or has too many alternatives
 */
export function globMatcher(pattern: string): GlobMatcher {
  if (pattern.length > MAX_PATTERN) throw new RangeError(`pattern is longer than ${MAX_PATTERN} characters`);
  const alternatives = expandBraces(pattern.replace(/^\.\//, ''));
  const compiled = alternatives.map((alternative) => alternative.split('/').filter((name) => name !== ''));
  return (names) =>
    compiled.some((parts) => matchNames(parts, parts.length === 1 && parts[0] !== '**' ? names.slice(-1) : names));
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

/** Dynamic programming: `reached[j]` tells that the parts so far match the first j names. */
function matchNames(parts: readonly string[], names: readonly string[]): boolean {
  let reached = [true, ...names.map(() => false)];
  for (const part of parts) {
    const next = reached.map(() => false);
    for (let at = 0; at <= names.length; at++) {
      if (part === '**') next[at] = reached[at] === true || (at > 0 && next[at - 1] === true);
      else if (at > 0 && reached[at - 1]) next[at] = matchName(part, names[at - 1] as string);
    }
    reached = next;
  }
  return reached[names.length] === true;
}

/** The same within one name; a class such as `[a-z]` is one step. */
function matchName(pattern: string, name: string): boolean {
  const steps = pattern.match(/\[!?\]?[^\]]*\]|[\s\S]/gu) ?? [];
  const letters = [...name];
  let reached = [true, ...letters.map(() => false)];
  for (const step of steps) {
    const next = reached.map(() => false);
    for (let at = 0; at <= letters.length; at++) {
      if (step === '*') next[at] = reached[at] === true || (at > 0 && next[at - 1] === true);
      else if (at > 0 && reached[at - 1]) next[at] = matchLetter(step, letters[at - 1] as string);
    }
    reached = next;
  }
  return reached[letters.length] === true;
}

function matchLetter(step: string, letter: string): boolean {
  if (step === '?') return true;
  if (step.length < 3 || !step.startsWith('[')) return step === letter;
  const negated = step.startsWith('[!');
  const members = Array.from(step.slice(negated ? 2 : 1, -1));
  let inside = false;
  for (let index = 0; index < members.length; index++) {
    const from = members[index] as string;
    const to = members[index + 1] === '-' ? members[index + 2] : undefined;
    if (to !== undefined) {
      inside ||= letter >= from && letter <= to;
      index += 2;
    } else inside ||= letter === from;
  }
  return inside !== negated;
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

const MAX_LINE = 400;

/**
 * Finds the matching lines of files, in order.
 * @throws Error for an invalid pattern, or one that cannot be matched in linear time
 */
export function searchLines(search: LineSearch): { matches: JsonObject[]; more: boolean } {
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
