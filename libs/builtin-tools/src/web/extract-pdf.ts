import { getDocumentProxy, getMeta } from 'unpdf';

/** The text of a PDF. */
export interface ExtractedPdf {
  title: string;
  text: string;
  /** Pages of the document; `pages_read` is how many of them were read. */
  pages: number;
  pages_read: number;
}

const MAX_PAGES = 200;

/**
 * Extracts the text of the first 200 pages, separated by blank lines. Scanned pages have no text. Runs in the child process of
 * BoundedWork.
 */
export async function extractPdf(bytes: Uint8Array): Promise<ExtractedPdf> {
  const document = await getDocumentProxy(bytes);
  const pages = document.numPages;
  const read: string[] = [];
  for (let number = 1; number <= Math.min(pages, MAX_PAGES); number += 1) {
    const page = await document.getPage(number);
    const { items } = await page.getTextContent();
    read.push(items.map((item) => ('str' in item ? item.str + (item.hasEOL ? '\n' : '') : '')).join(''));
    page.cleanup();
  }
  const meta = await getMeta(document).catch(() => undefined);
  const title = (meta?.info as { Title?: unknown } | undefined)?.Title;
  return {
    title: typeof title === 'string' ? title : '',
    text: read.join('\n\n').trim(),
    pages,
    pages_read: read.length,
  };
}
