/**
 * True when a tool name matches one of the globs (`*` = any run of characters, everything else literal).
 * Linear in the name for each star: no pattern can be made slow.
 */
export function toolAllowed(globs: readonly string[], name: string): boolean {
  for (const glob of globs)
    if (glob === '*' || glob === name || (glob.includes('*') && matches(glob, name))) return true;
  return false;
}

/**
 * Globs that allow only what both lists allow. A glob that matches the text of another covers it (a `*` absorbs a `*`), so
 * this is never too wide; of two globs that merely overlap (`a*`, `*b`) nothing is kept, which refuses rather than guesses.
 */
export function narrowGlobs(held: readonly string[], wanted: readonly string[]): string[] {
  const kept = [
    ...wanted.filter((glob) => toolAllowed(held, glob)),
    ...held.filter((glob) => toolAllowed(wanted, glob)),
  ];
  return [...new Set(kept)];
}

function matches(glob: string, name: string): boolean {
  const parts = glob.split('*');
  const first = parts[0]!;
  const last = parts.at(-1)!;
  if (name.length < first.length + last.length || !name.startsWith(first) || !name.endsWith(last)) return false;
  let at = first.length;
  const end = name.length - last.length;
  for (const part of parts.slice(1, -1)) {
    const found = name.indexOf(part, at);
    if (found < 0 || found + part.length > end) return false;
    at = found + part.length;
  }
  return true;
}
