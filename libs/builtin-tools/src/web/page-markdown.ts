/** HTML of a page's main content as Markdown. Runs in the child process of BoundedWork. */
import TurndownService from 'turndown';
import type { PageElement } from './page-dom.js';

/** Rows and columns of a table that is shown as one; a larger one would cost more than it tells. */
const MAX_ROWS = 500;
const MAX_COLUMNS = 50;

/** Markdown with `#` headings, fenced code, and tables as tables. */
export function markdown(html: string): string {
  const service = new TurndownService({ headingStyle: 'atx', codeBlockStyle: 'fenced', bulletListMarker: '-' });
  service.addRule('images', {
    filter: 'img',
    replacement: (_content, node) => altText(node as unknown as PageElement),
  });
  service.addRule('tables', {
    filter: (node) => node.nodeName === 'TABLE' && rowsOf(node as unknown as PageElement) !== undefined,
    replacement: (_content, node) => `\n\n${table(rowsOf(node as unknown as PageElement) ?? [])}\n\n`,
  });
  return service
    .turndown(html)
    .split('\n')
    .map((line) => line.trimEnd())
    .join('\n')
    .replaceAll(/\n{3,}/g, '\n\n')
    .trim();
}

/** Cells of a table of data; undefined for one that only arranges a page: blocks or tables inside, one row or column. */
function rowsOf(element: PageElement): string[][] | undefined {
  if (element.querySelector('table,p,div,ul,ol,h1,h2,h3,pre,form')) return undefined;
  const rows = Array.from(element.querySelectorAll('tr'))
    .slice(0, MAX_ROWS)
    .map((row) => Array.from(row.querySelectorAll('th,td'), (cell) => oneLine(cell.textContent)))
    .filter((row) => row.length > 0);
  const columns = Math.max(0, ...rows.map((row) => row.length));
  return rows.length > 1 && columns > 1 && columns <= MAX_COLUMNS ? rows : undefined;
}

function table(rows: readonly (readonly string[])[]): string {
  const columns = Math.max(...rows.map((row) => row.length));
  const line = (row: readonly string[]) =>
    `| ${Array.from({ length: columns }, (_, column) => (row[column] ?? '').replaceAll('|', '\\|')).join(' | ')} |`;
  const [head = [], ...rest] = rows;
  return [line(head), `|${' --- |'.repeat(columns)}`, ...rest.map(line)].join('\n');
}

function altText(image: PageElement): string {
  const alt = oneLine(image.getAttribute('alt'));
  return alt === '' ? '' : `[image: ${alt}]`;
}

function oneLine(text: string | null | undefined): string {
  return (text ?? '').replaceAll(/\s+/g, ' ').trim();
}
