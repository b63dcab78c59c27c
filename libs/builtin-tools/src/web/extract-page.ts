import { Readability } from '@mozilla/readability';
import { parseHTML } from 'linkedom';
import TurndownService from 'turndown';
import type { ExtractType } from './page-reader.js';

/** Reads an HTML page: its main content, its links, its metadata. Runs in the child process of BoundedWork. */

/** A link of a page; absolute URL. */
export interface PageLink {
  text: string;
  url: string;
}

/** A page that was read; what was not asked for is absent. */
export interface ExtractedPage {
  title: string;
  /** Main content as Markdown. */
  text?: string;
  links?: PageLink[];
  headings?: { level: number; text: string }[];
  metadata?: Record<string, string>;
}

const MAX_LINKS = 1_000;
const MAX_HEADINGS = 300;
const MAX_FIELD = 500;
/** Metadata worth telling, by `name` or `property` of its element. */
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
/** Characters of an article that is taken for the whole content. */
const MIN_ARTICLE = 500;
/** Characters without which a page has no content of its own. */
const MIN_ESSENCE = 20;
/** Characters of HTML that are read a second time. */
const MAX_SMALL_PAGE = 500_000;

/** Reads a page that came from `url`. */
export function extractPage(html: string, url: string, what: ExtractType): ExtractedPage {
  const whole = /<html[\s>]/i.test(html) ? html : `<!doctype html><html><body>${html}</body></html>`;
  const { document } = parseHTML(whole) as unknown as { document: PageDocument };
  const base = baseOf(document, url);
  const title = clean(document.querySelector('title')?.textContent ?? document.querySelector('h1')?.textContent ?? '');
  if (what === 'links') return { title, links: linksOf(document, base) };
  const shared =
    what === 'structured'
      ? { headings: headingsOf(document), metadata: metadataOf(document, base), links: linksOf(document, base) }
      : {};
  for (const element of document.querySelectorAll(NOISE)) element.remove();
  absoluteLinks(document, base);
  return { title, text: mainContent(document), ...shared };
}

/**
 * The article of a page. Where there is none of some length (a short note, questions and answers, a list), what the page names its
 * main part, else everything but navigation, footers and the like: on a small page, losing text is worse than keeping some more.
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
  const essence = markdown(withoutBoilerplate(whole));
  return essence.length >= MIN_ESSENCE ? essence : markdown(article?.content || whole);
}

function withoutBoilerplate(html: string): string {
  if (html.length > MAX_SMALL_PAGE) return html;
  const { document } = parseHTML(`<html><body>${html}</body></html>`) as unknown as { document: PageDocument };
  const main = document.querySelector('main,[role="main"]') ?? document.body;
  for (const element of Array.from(main?.querySelectorAll(BOILERPLATE) ?? [])) element.remove();
  return main?.innerHTML ?? html;
}

function linksOf(document: PageDocument, base: string): PageLink[] {
  const links = new Map<string, PageLink>();
  for (const anchor of document.querySelectorAll('a[href],area[href]')) {
    const url = absolute(anchor.getAttribute('href') ?? '', base);
    if (!url || links.has(url)) continue;
    links.set(url, { text: clean(anchor.textContent ?? anchor.getAttribute('title') ?? ''), url });
    if (links.size >= MAX_LINKS) break;
  }
  return [...links.values()];
}

function headingsOf(document: PageDocument): { level: number; text: string }[] {
  return [...document.querySelectorAll('h1,h2,h3,h4,h5,h6')]
    .slice(0, MAX_HEADINGS)
    .map((heading) => ({ level: Number(heading.tagName.slice(1)), text: clean(heading.textContent ?? '') }))
    .filter((heading) => heading.text !== '');
}

function metadataOf(document: PageDocument, base: string): Record<string, string> {
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

function baseOf(document: PageDocument, url: string): string {
  const base = document.querySelector('base[href]')?.getAttribute('href');
  return (base && absolute(base, url)) || url;
}

/** Web address without its fragment, or undefined. */
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

/** One line of readable length. Zero-width and direction signs are a way to hide text from people: taken out. */
function clean(text: string): string {
  return text
    .replaceAll(/[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g, '')
    .replaceAll(/\s+/g, ' ')
    .trim()
    .slice(0, MAX_FIELD);
}

/** HTML of a page's main content as Markdown. Runs in the child process of BoundedWork. */

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

/** The part of the DOM that reading a page needs; the compiler's whole `dom` library would make browser globals look real. */
export interface PageElement {
  readonly tagName: string;
  readonly textContent: string | null;
  readonly innerHTML: string;
  getAttribute(name: string): string | null;
  setAttribute(name: string, value: string): void;
  removeAttribute(name: string): void;
  remove(): void;
  querySelector(selector: string): PageElement | null;
  /** Not iterable in every DOM: use Array.from. */
  querySelectorAll(selector: string): ArrayLike<PageElement>;
}

/** A parsed page. */
export interface PageDocument {
  readonly body: PageElement | null;
  readonly documentElement: PageElement | null;
  querySelector(selector: string): PageElement | null;
  querySelectorAll(selector: string): Iterable<PageElement>;
}
