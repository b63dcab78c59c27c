import type { JsonObject } from '@toolfleet/contracts';
import { TextSearch } from '@toolfleet/contracts/text';
import { boundedMatcher } from '@toolfleet/schema';

/** A search for lines, as `file_search` hands it to the child process. */
export interface LineSearch {
  files: { path: string; text: string }[];
  query: string;
  /** The query is a regular expression; it runs on a linear-time engine. */
  useRegex: boolean;
  ignoreCase: boolean;
  /** Most matches. */
  limit: number;
}

const MAX_LINE = 400;

/**
 * Lines of files that match, in order.
 * @throws Error for a query that is no pattern, or one that cannot be matched in linear time
 */
export function searchLines(search: LineSearch): { matches: JsonObject[]; more: boolean } {
  const matches = lineMatcher(search);
  const found: JsonObject[] = [];
  for (const { path, text } of search.files) {
    let number = 0;
    for (const line of linesOf(text)) {
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

/** One line at a time: a list of all lines of a file of line ends would take fifty times its size. */
function* linesOf(text: string): Generator<string> {
  let from = 0;
  for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n', from)) {
    yield text.slice(from, end);
    from = end + 1;
  }
  yield text.slice(from);
}
