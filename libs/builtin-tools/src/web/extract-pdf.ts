/** Reads the text of a PDF. Runs in the child process of BoundedWork. */
import { extractText, getDocumentProxy, getMeta } from 'unpdf';

/** A PDF that was read. */
export interface ExtractedPdf {
  title: string;
  text: string;
  pages: number;
}

const MAX_PAGES = 200;

/** Text of the first 200 pages, pages apart by a blank line. Scanned pages have none. */
export async function extractPdf(bytes: Uint8Array): Promise<ExtractedPdf> {
  const document = await getDocumentProxy(bytes);
  const pages = document.numPages;
  if (pages > MAX_PAGES) throw new Error(`The PDF has ${pages} pages; at most ${MAX_PAGES} are read`);
  const { text } = await extractText(document, { mergePages: false });
  const meta = await getMeta(document).catch(() => undefined);
  const title = (meta?.info as { Title?: unknown } | undefined)?.Title;
  return { title: typeof title === 'string' ? title : '', text: text.join('\n\n').trim(), pages };
}
