/** The word of `known` that somebody who typed `word` most likely meant; undefined when none is near. */
export function didYouMean(word: string, known: Iterable<string>): string | undefined {
  let best: { one: string; distance: number } | undefined;
  for (const one of known) {
    const distance = editDistance(word.toLowerCase(), one.toLowerCase());
    if (distance <= Math.max(1, Math.floor(one.length / 3)) && distance < (best?.distance ?? Infinity))
      best = { one, distance };
  }
  return best?.one;
}

/** `; did you mean X?`, or nothing. */
export function suggestion(word: string, known: Iterable<string>, prefix = ''): string {
  const meant = didYouMean(word, known);
  return meant === undefined ? '' : `; did you mean ${prefix}${meant}?`;
}

/** Insertions, deletions, replacements and swaps of neighbours that turn one word into the other. */
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
