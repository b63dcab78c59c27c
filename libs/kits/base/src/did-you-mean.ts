/** The known word that is closest to `word`; undefined when none is close enough to be a typo. */
export function didYouMean(word: string, known: Iterable<string>): string | undefined {
  let best: { one: string; distance: number } | undefined;
  for (const one of known) {
    const most = Math.max(1, Math.floor(one.length / 3));
    if (Math.abs(one.length - word.length) > most) continue;
    const distance = editDistance(word.toLowerCase(), one.toLowerCase());
    if (distance <= most && distance < (best?.distance ?? Infinity)) best = { one, distance };
  }
  return best?.one;
}

/** `; did you mean X, Y or Z?`; an empty string for no words. */
export function question(words: readonly string[]): string {
  if (words.length === 0) return '';
  return `; did you mean ${[words.slice(0, -1).join(', '), ...words.slice(-1)].filter((part) => part !== '').join(' or ')}?`;
}

/** `; did you mean X?` when a known word is close to `word`, else an empty string. */
export function suggestion(word: string, known: Iterable<string>, prefix = ''): string {
  const meant = didYouMean(word, known);
  return meant === undefined ? '' : question([`${prefix}${meant}`]);
}

/** Insertions, deletions, substitutions and transpositions between two words (optimal string alignment distance). */
function editDistance(a: string, b: string): number {
  const rows = [Array.from({ length: b.length + 1 }, (_, index) => index)];
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const [above, before] = [rows[i - 1] as number[], rows[i - 2]];
      let cost = Math.min(
        (above[j - 1] as number) + (a[i - 1] === b[j - 1] ? 0 : 1),
        (above[j] as number) + 1,
        (row[j - 1] as number) + 1,
      );
      if (before && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        cost = Math.min(cost, (before[j - 2] as number) + 1);
      row.push(cost);
    }
    rows.push(row);
  }
  return rows.at(-1)?.at(-1) ?? 0;
}
