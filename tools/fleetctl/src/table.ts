import { plain } from './terminal.js';

/** Widest cell when nobody looks at a terminal. */
const DEFAULT_WIDTH = 160;

/** Rows as an aligned table; the last column is cut at the terminal's edge. Numbers stand right. */
export function table(
  head: readonly string[],
  rows: readonly (readonly (string | number | null | undefined)[])[],
  width = DEFAULT_WIDTH,
): string {
  const numeric = head.map((_, column) => rows.length > 0 && rows.every((row) => typeof row[column] === 'number'));
  const cells = rows.map((row) => head.map((_, column) => oneLine(row[column])));
  const widths = head.map((title, column) => Math.max(title.length, ...cells.map((row) => row[column]?.length ?? 0)));
  const line = (row: readonly string[]) =>
    cut(
      row
        .map((cell, column) =>
          numeric[column] ? cell.padStart(widths[column] ?? 0) : cell.padEnd(widths[column] ?? 0),
        )
        .join('  ')
        .trimEnd(),
      width,
    );
  return `${[line(head), ...cells.map(line)].join('\n')}\n`;
}

function oneLine(value: string | number | null | undefined): string {
  return plain(String(value ?? '-'))
    .replaceAll(/\s+/g, ' ')
    .trim();
}

function cut(text: string, width: number): string {
  return text.length <= width ? text : `${text.slice(0, Math.max(0, width - 1))}…`;
}
