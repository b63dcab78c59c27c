/** An error that is printed as one message and ends the program with an exit code for scripts. */
export class CliError extends Error {
  readonly exitCode: number;

  constructor(message: string, exitCode: number = EXIT.failed) {
    super(message);
    this.name = 'CliError';
    this.exitCode = exitCode;
  }
}

/** Exit codes: success, failed call or fleet, usage error, no connection, not allowed. 130 is used for Ctrl-C. */
export const EXIT = { ok: 0, failed: 1, usage: 2, connection: 3, refused: 4 } as const;

/** The known word that is closest to `word`; undefined when none is close enough to be a typo. */
function didYouMean(word: string, known: Iterable<string>): string | undefined {
  let best: { one: string; distance: number } | undefined;
  for (const one of known) {
    const distance = editDistance(word.toLowerCase(), one.toLowerCase());
    if (distance <= Math.max(1, Math.floor(one.length / 3)) && distance < (best?.distance ?? Infinity))
      best = { one, distance };
  }
  return best?.one;
}

/** `; did you mean X?` when a known word is close to `word`, else an empty string. */
export function suggestion(word: string, known: Iterable<string>, prefix = ''): string {
  const meant = didYouMean(word, known);
  return meant === undefined ? '' : `; did you mean ${prefix}${meant}?`;
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
