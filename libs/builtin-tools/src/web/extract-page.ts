import { Readability } from '@mozilla/readability';
import { parseHTML } from 'linkedom';
import TurndownService from 'turndown';

/** Parts to extract from a page. */
export const EXTRACT_TYPES = ['text', 'links', 'structured'] as const;

export type ExtractType = (typeof EXTRACT_TYPES)[number];

/** A link of a page, with its absolute URL. */
type PageLink = {
  text: string;
  url: string;
};

/** The extracted parts of a page; only those requested are present. */
export type ExtractedPage = {
  title: string;
  /** Main content as Markdown. */
  text?: string;
  links?: PageLink[];
  headings?: { level: number; text: string }[];
  metadata?: Record<string, string>;
};

const MAX_LINKS = 1_000;
const MAX_HEADINGS = 300;
const MAX_FIELD = 500;
/** Names of the metadata, by `name` or `property` of its element. */
const META: Readonly<Record<string, string>> = {
  description: 'description',
  'og:description': 'description',
  'og:title': 'og_title',
  'og:site_name': 'site',
  'og:image': 'image',
  'og:type': 'type',
  author: 'author',
  'article:author': 'author',
  'article:published_time': 'published',
  'article:modified_time': 'modified',
  keywords: 'keywords',
  generator: 'generator',
};
/** Elements that never hold content. */
const NOISE = 'script,style,noscript,template,svg,iframe,object,embed,[hidden],[aria-hidden="true"]';

/** Elements around the content of a page. */
const BOILERPLATE =
  'nav,footer,aside,form,dialog,body > header,[role="navigation"],[role="banner"],[role="contentinfo"],[role="dialog"],[class*="cookie"],[id*="cookie"]';
/** Shortest article, in characters, that counts as the whole content. */
const MIN_ARTICLE = 500;
/** Shortest content, in characters, without boilerplate. */
const MIN_CONTENT = 20;
/** Longest HTML, in characters, that is parsed a second time to remove boilerplate. */
const MAX_SMALL_PAGE = 500_000;

function parsePage(html: string): { document: PageDocument } {
  return parseHTML(html);
}

/** Extracts parts of an HTML page that came from `url`. Runs in the child process of BoundedWork. */
export function extractPage(html: string, url: string, what: ExtractType): ExtractedPage {
  const whole = /<html[\s>]/i.test(html) ? html : `<!doctype html><html><body>${html}</body></html>`;
  const { document } = parsePage(whole);
  const base = readBase(document, url);
  const title = clean(document.querySelector('title')?.textContent ?? document.querySelector('h1')?.textContent ?? '');
  if (what === 'links') return { title, links: readLinks(document, base) };
  const shared =
    what === 'structured'
      ? { headings: readHeadings(document), metadata: readMetadata(document, base), links: readLinks(document, base) }
      : {};
  for (const element of document.querySelectorAll(NOISE)) element.remove();
  absoluteLinks(document, base);
  return { title, text: mainContent(document), ...shared };
}

/**
 * The main content as Markdown: the article if there is one of some length. Otherwise (a short note, questions and answers, a
 * list) the `main` element, or everything except navigation, footers and the like, because losing text of a small page is
 * worse than keeping too much.
 */
function mainContent(document: PageDocument): string {
  const whole = document.body?.innerHTML ?? '';
  let article: { content?: string | null; length?: number | null } | null = null;
  try {
    article = new Readability(document as never, { charThreshold: 200, maxElemsToParse: 50_000 }).parse();
  } catch {
    // Too many elements, or a page the heuristics fail on.
  }
  if (article?.content && (article.length ?? 0) >= MIN_ARTICLE) return markdown(article.content);
  const content = markdown(withoutBoilerplate(whole));
  return content.length >= MIN_CONTENT ? content : markdown(article?.content || whole);
}

function withoutBoilerplate(html: string): string {
  if (html.length > MAX_SMALL_PAGE) return html;
  const { document } = parsePage(`<html><body>${html}</body></html>`);
  const main = document.querySelector('main,[role="main"]') ?? document.body;
  for (const element of Array.from(main?.querySelectorAll(BOILERPLATE) ?? [])) element.remove();
  return main?.innerHTML ?? html;
}

function readLinks(document: PageDocument, base: string): PageLink[] {
  const links = new Map<string, PageLink>();
  for (const anchor of document.querySelectorAll('a[href],area[href]')) {
    const url = absolute(anchor.getAttribute('href') ?? '', base);
    if (!url || links.has(url)) continue;
    links.set(url, { text: clean(anchor.textContent ?? anchor.getAttribute('title') ?? ''), url });
    if (links.size >= MAX_LINKS) break;
  }
  return [...links.values()];
}

function readHeadings(document: PageDocument): { level: number; text: string }[] {
  return [...document.querySelectorAll('h1,h2,h3,h4,h5,h6')]
    .slice(0, MAX_HEADINGS)
    .map((heading) => ({ level: Number(heading.tagName.slice(1)), text: clean(heading.textContent ?? '') }))
    .filter((heading) => heading.text !== '');
}

function readMetadata(document: PageDocument, base: string): Record<string, string> {
  const found: Record<string, string> = {};
  const language = document.documentElement?.getAttribute('lang');
  if (language) found['language'] = clean(language);
  const canonical = absolute(document.querySelector('link[rel="canonical"]')?.getAttribute('href') ?? '', base);
  if (canonical) found['canonical'] = canonical;
  for (const element of document.querySelectorAll('meta[content]')) {
    const name = META[(element.getAttribute('name') ?? element.getAttribute('property') ?? '').toLowerCase()];
    const content = clean(element.getAttribute('content') ?? '');
    if (name && content !== '' && !Object.hasOwn(found, name)) found[name] = content;
  }
  return found;
}

function absoluteLinks(document: PageDocument, base: string): void {
  for (const anchor of document.querySelectorAll('a[href]')) {
    const url = absolute(anchor.getAttribute('href') ?? '', base);
    if (url) anchor.setAttribute('href', url);
    else anchor.removeAttribute('href'); // javascript:, data:, mailto: and broken ones
  }
}

function readBase(document: PageDocument, url: string): string {
  const base = document.querySelector('base[href]')?.getAttribute('href');
  return (base && absolute(base, url)) || url;
}

/** The absolute http(s) URL without fragment, or undefined. */
function absolute(href: string, base: string): string | undefined {
  const target = href.trim();
  if (target === '' || target.startsWith('#')) return undefined;
  try {
    const url = new URL(target, base);
    url.hash = '';
    return url.protocol === 'https:' || url.protocol === 'http:' ? url.href : undefined;
  } catch {
    return undefined;
  }
}

/** One line of limited length, without zero-width and direction characters that can hide text from people. */
function clean(text: string): string {
  return text
    .replaceAll(/[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g, '')
    .replaceAll(/\s+/g, ' ')
    .trim()
    .slice(0, MAX_FIELD);
}

/** Maximum number of rows of a Markdown table, and of columns of a table that is converted to one. */
const MAX_ROWS = 500;
const MAX_COLUMNS = 50;

/** Converts HTML to Markdown with `#` headings, fenced code and tables. */
export function markdown(html: string): string {
  const service = new TurndownService({ headingStyle: 'atx', codeBlockStyle: 'fenced', bulletListMarker: '-' });
  service.addRule('images', {
    filter: 'img',
    replacement: (_content, node) => altText(node),
  });
  service.addRule('tables', {
    filter: (node) => node.nodeName === 'TABLE' && readRows(node) !== undefined,
    replacement: (_content, node) => `\n\n${table(readRows(node) ?? [])}\n\n`,
  });
  return service
    .turndown(html)
    .split('\n')
    .map((line) => line.trimEnd())
    .join('\n')
    .replaceAll(/\n{3,}/g, '\n\n')
    .trim();
}

/** The cells of a data table; undefined for a layout table with blocks or tables inside, or one row or column. */
function readRows(element: PageElement): string[][] | undefined {
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

/** The used part of the DOM. The compiler's `dom` library would also declare browser globals that do not exist here. */
interface PageElement {
  readonly tagName: string;
  readonly textContent: string | null;
  readonly innerHTML: string;
  getAttribute(name: string): string | null;
  setAttribute(name: string, value: string): void;
  removeAttribute(name: string): void;
  remove(): void;
  querySelector(selector: string): PageElement | null;
  /** Not iterable in every DOM; use Array.from. */
  querySelectorAll(selector: string): ArrayLike<PageElement>;
}

/** A parsed page. */
interface PageDocument {
  readonly body: PageElement | null;
  readonly documentElement: PageElement | null;
  querySelector(selector: string): PageElement | null;
  querySelectorAll(selector: string): Iterable<PageElement>;
}
