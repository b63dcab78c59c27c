/** Reads the text of a PDF. Runs in the child process of BoundedWork. */
import { getDocumentProxy, getMeta } from 'unpdf';

/** A PDF that was read. */
export interface ExtractedPdf {
  title: string;
  text: string;
  /** Pages of the document, and how many of them were read. */
  pages: number;
  pages_read: number;
}

const MAX_PAGES = 200;

/** Text of the first 200 pages, pages apart by a blank line. Scanned pages have none. */
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
