/**
 * A row as RFC 4180 quotes it, without the line end. Text that a spreadsheet would run as a formula gets an apostrophe: names and
 * messages may come from anybody.
 */
export function csvRow(cells: readonly (string | number | undefined)[]): string {
  return cells.map(cell).join(',');
}

function cell(value: string | number | undefined): string {
  if (typeof value !== 'string') return String(value ?? '');
  const text = /^\s*[=+\-@\uFF1D\uFF0B\uFF0D\uFF20]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
