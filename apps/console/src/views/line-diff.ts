/** A line of a comparison. */
interface DiffLine {
  change: 'same' | 'gone' | 'new';
  text: string;
}

/** Longer texts are shown in full, before and after: the comparison costs the product of their lengths. */
const MOST_LINES = 1_500;

/** Removed and added lines between two texts, by their longest common subsequence. */
export function lineDiff(before: string, after: string): DiffLine[] {
  const [a, b] = [before.split('\n'), after.split('\n')];
  if (a.length > MOST_LINES || b.length > MOST_LINES) {
    return [
      ...a.map((text) => ({ change: 'gone', text }) as const),
      ...b.map((text) => ({ change: 'new', text }) as const),
    ];
  }
  // common[i][j]: length of the longest common subsequence of a from i and b from j.
  const common = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      common[i]![j] = a[i] === b[j] ? common[i + 1]![j + 1]! + 1 : Math.max(common[i + 1]![j]!, common[i]![j + 1]!);
    }
  }
  const lines: DiffLine[] = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      lines.push({ change: 'same', text: a[i]! });
      i += 1;
      j += 1;
    } else if (j >= b.length || (i < a.length && common[i + 1]![j]! >= common[i]![j + 1]!)) {
      lines.push({ change: 'gone', text: a[i]! });
      i += 1;
    } else {
      lines.push({ change: 'new', text: b[j]! });
      j += 1;
    }
  }
  return lines;
}

/** Default-ignorable characters and bidirectional controls that a model reads but a reviewer cannot see. */
const HIDDEN = /[\p{Default_Ignorable_Code_Point}\p{Cf}]/gu;

/** Replaces invisible characters by their code points: `‹U+200B›`. */
export function visible(text: string): string {
  return text.replace(HIDDEN, (hidden) => `‹U+${hidden.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0')}›`);
}
