import { createHash } from 'node:crypto';
import { isJsonObject, ToolError, type Json, type JsonObject } from '@toolfleet/contracts';
import type { EgressClient } from '@toolfleet/egress';
/** A search result. */
interface SearchResult {
  title: string;
  url: string;
  snippet: string;
  /** As reported by the provider. */
  published?: string;
}

/** Searches the web. */
export abstract class SearchProvider {
  /** Shown as `metadata.source`. */
  abstract readonly name: string;
  /** Maximum number of results of one search. */
  abstract readonly maxResults: number;
  /** Results, best first; `maxResults` of them at most. @throws ToolError UPSTREAM_ERROR, NETWORK_ERROR, AUTH_NOT_CONFIGURED */
  abstract search(query: string, maxResults: number, signal: AbortSignal): Promise<SearchResult[]>;
}

/** Names for WEB_SEARCH_PROVIDER. */
export const SEARCH_PROVIDERS = ['searchapi', 'brave', 'searxng', 'local'] as const;

export type SearchProviderName = (typeof SEARCH_PROVIDERS)[number];

/** The request of a provider, and where its results are in the response. */
interface Dialect {
  /** URL of the provider; absent for one that everybody hosts. */
  base?: string;
  url: (base: string, query: string, maxResults: number) => string;
  headers: (key: string) => Record<string, string>;
  needsKey: boolean;
  /** Maximum number of results that one request can ask for; for SearXNG the most that are kept of one page. */
  maxResults: number;
  hits: (answer: JsonObject) => Json | undefined;
  /** Names of title, URL, snippet and date in a result. */
  fields: readonly [string, string, string, string];
}

const DIALECTS: Readonly<Record<Exclude<SearchProviderName, 'local'>, Dialect>> = {
  /** https://www.searchapi.io/docs/google */
  searchapi: {
    base: 'https://www.searchapi.io',
    url: (base, query, max) =>
      `${base}/api/v1/search?${new URLSearchParams({ engine: 'google', q: query, num: String(max) })}`,
    headers: (key) => ({ authorization: `Bearer ${key}` }),
    needsKey: true,
    maxResults: 50,
    hits: (answer) => answer['organic_results'],
    fields: ['title', 'link', 'snippet', 'date'],
  },
  /** https://api-dashboard.search.brave.com/app/documentation/web-search */
  brave: {
    base: 'https://api.search.brave.com',
    url: (base, query, max) => `${base}/res/v1/web/search?${new URLSearchParams({ q: query, count: String(max) })}`,
    headers: (key) => ({ 'x-subscription-token': key }),
    needsKey: true,
    maxResults: 20,
    hits: (answer) => (isJsonObject(answer['web']) ? answer['web']['results'] : []),
    fields: ['title', 'url', 'description', 'age'],
  },
  /** https://docs.searxng.org/dev/search_api.html; `json` has to be among its `search.formats` */
  searxng: {
    url: (base, query) => `${base}/search?${new URLSearchParams({ q: query, format: 'json' })}`,
    headers: (key): Record<string, string> => (key === '' ? {} : { authorization: `Bearer ${key}` }),
    needsKey: false,
    maxResults: 50,
    hits: (answer) => answer['results'],
    fields: ['title', 'url', 'content', 'publishedDate'],
  },
};

/** The URL of a provider, unless another one is configured. */
export const providerUrl = (name: keyof typeof DIALECTS): string => DIALECTS[name].base ?? '';

/** A search API over HTTP that returns JSON. */
export class HttpSearchProvider extends SearchProvider {
  constructor(
    override readonly name: Exclude<SearchProviderName, 'local'>,
    private readonly base: string,
    private readonly key: string,
    private readonly egress: EgressClient,
  ) {
    super();
  }

  override get maxResults(): number {
    return DIALECTS[this.name].maxResults;
  }

  override async search(query: string, maxResults: number, signal: AbortSignal): Promise<SearchResult[]> {
    const dialect = DIALECTS[this.name];
    if (dialect.needsKey && this.key === '') {
      throw new ToolError('AUTH_NOT_CONFIGURED', {
        message: `web_search has no key for ${this.name}: set WEB_SEARCH_API_KEY, or another WEB_SEARCH_PROVIDER`,
      });
    }
    const url = dialect.url(this.base.replace(/\/$/, ''), query, maxResults);
    const response = await this.egress.request({
      url,
      signal,
      headers: { accept: 'application/json', ...dialect.headers(this.key) },
      followRedirects: false,
    });
    const body = (await response.body.bytes()).toString('utf8');
    // The body of an error may repeat the key, so only its status is reported.
    if (response.status !== 200)
      throw new ToolError('UPSTREAM_ERROR', {
        message: `${this.name} answered HTTP ${response.status}`,
        details: { status: response.status },
      });
    const hits = dialect.hits(parseAnswer(body, this.name));
    return (Array.isArray(hits) ? hits : []).flatMap((hit) => readResult(hit, dialect.fields)).slice(0, maxResults);
  }
}

function parseAnswer(body: string, name: string): JsonObject {
  try {
    const answer: unknown = JSON.parse(body);
    if (isJsonObject(answer)) return answer;
  } catch {
    // reported below
  }
  throw new ToolError('UPSTREAM_ERROR', { message: `${name} did not return JSON` });
}

function readResult(hit: Json, [title, url, snippet, published]: Dialect['fields']): SearchResult[] {
  if (!isJsonObject(hit) || typeof hit[url] !== 'string' || !/^https?:\/\//i.test(hit[url])) return [];
  const text = (name: string) =>
    typeof hit[name] === 'string' ? hit[name].replaceAll(/<[^>]{0,200}>/g, '').trim() : '';
  return [
    {
      title: text(title),
      url: hit[url],
      snippet: text(snippet),
      published: text(published) || undefined,
    },
  ];
}

const SUBJECTS = [
  'Introduction to',
  'A practical guide to',
  'Frequently asked questions about',
  'The history of',
  'Common mistakes with',
  'Recent developments in',
  'Comparing approaches to',
  'Best practices for',
];

/** Deterministic simulated results for tests and demos without a network. The URLs are example addresses (RFC 2606). */
export class LocalSearchProvider extends SearchProvider {
  override readonly name = 'local';
  override readonly maxResults = 20;

  override search(query: string, maxResults: number): Promise<SearchResult[]> {
    const seed = createHash('sha256').update(query.toLowerCase().trim()).digest();
    const slug = query
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}]+/gu, '-')
      .replaceAll(/^-|-$/g, '')
      .slice(0, 60);
    const results = Array.from({ length: maxResults }, (_, index) => ({
      title: `${SUBJECTS[((seed[index % 32] ?? 0) + index) % SUBJECTS.length]} ${query}`,
      url: `https://example.com/${encodeURIComponent(slug)}/${index + 1}`,
      snippet: `Simulated result ${index + 1} for "${query}". Set WEB_SEARCH_PROVIDER for real ones.`,
    }));
    return Promise.resolve(results);
  }
}
