/** Verdicts on regular expressions seen before; documents repeat a few patterns thousands of times. */
const known = new Map<string, string | null>();
const MAX_KNOWN = 10_000;

/**
 * The pattern as ECMA-262 with the `u` flag reads it (JSON Schema 2020-12 section 6.4), or null when it cannot be had.
 * Repaired: needless escapes (`\-`, `\/`, `\@`), `\A` and `\Z` of other dialects. Not repaired: `(?i)`, possessive
 * quantifiers: dropping a constraint is safe, changing its meaning is not.
 */
export function ecmaPattern(pattern: string): string | null {
  const seen = known.get(pattern);
  if (seen !== undefined) return seen;
  const verdict = isValid(pattern) ? pattern : repaired(pattern);
  if (known.size >= MAX_KNOWN) known.clear();
  known.set(pattern, verdict);
  return verdict;
}

function repaired(pattern: string): string | null {
  const candidate = pattern.replace(/\\\\|\\-|\\A|\\[zZ]|\\[_@#%&=!"'`~,;:<> ]/g, (escape) => {
    if (escape === '\\\\') return escape;
    if (escape === '\\-') return '\\x2d';
    if (escape === '\\A') return '^';
    if (escape === '\\z' || escape === '\\Z') return '$';
    return escape.slice(1);
  });
  return candidate !== pattern && isValid(candidate) ? candidate : null;
}

function isValid(pattern: string): boolean {
  try {
    return new RegExp(pattern, 'u') instanceof RegExp;
  } catch {
    return false;
  }
}
