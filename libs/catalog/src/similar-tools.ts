import { isToolError, ToolError, type Principal } from '@toolfleet/contracts';
import { didYouMean, question } from '@toolfleet/contracts/text';

/** Most names that are suggested. */
const MAX_SUGGESTED = 3;
/** Longest name that is compared. */
const MAX_NAME_CHARS = 128;

/**
 * Names that may have been meant by a wrong one, closest first: the name without typos, then names that have all of its words
 * (`parcel` for `get_parcel`), or of which it has all.
 */
export function similarNames(wrong: string, names: readonly string[]): string[] {
  if (wrong.length > MAX_NAME_CHARS) return [];
  const typo = didYouMean(wrong, names);
  const words = wordsOf(wrong);
  const alike = names.flatMap((name) => {
    const others = wordsOf(name);
    const [fewer, more] = words.size < others.size ? [words, others] : [others, words];
    return fewer.size > 0 && [...fewer].every((word) => more.has(word))
      ? [{ name, distance: more.size - fewer.size }]
      : [];
  });
  const found = alike.toSorted((a, b) => a.distance - b.distance).map(({ name }) => name);
  return [...new Set(typo === undefined ? found : [typo, ...found])].slice(0, MAX_SUGGESTED);
}

/** `parcels_getParcel` has the words parcels, get and parcel. */
function wordsOf(name: string): Set<string> {
  return new Set(
    name
      .replaceAll(/(?<=[a-z\d])(?=[A-Z])/g, ' ')
      .toLowerCase()
      .match(/[a-z\d]+/g),
  );
}

/** The refusal of an unknown tool, with names of tools that the caller may see and may have meant. Other errors are unchanged. */
export async function withSimilarTools(
  error: unknown,
  wrong: string,
  list: { all(caller: Principal): Promise<{ tools: readonly { name: string }[] }> },
  principal: Principal,
): Promise<unknown> {
  if (!isToolError(error) || error.code !== 'TOOL_NOT_FOUND') return error;
  const listed = await list.all(principal).catch(() => undefined);
  const suggestions = listed
    ? similarNames(
        wrong,
        listed.tools.map(({ name }) => name),
      )
    : [];
  if (suggestions.length === 0) return error;
  return new ToolError(error.code, {
    message: error.message + question(suggestions),
    details: { ...error.details, suggestions },
    facts: { ...error.facts, similar: suggestions },
    cause: error,
  });
}
