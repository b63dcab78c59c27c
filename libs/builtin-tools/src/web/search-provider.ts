/** One hit of a search. */
export interface SearchResult {
  title: string;
  url: string;
  snippet: string;
  /** As the provider tells it. */
  published?: string;
}

/** Something that can search the web. */
export abstract class SearchProvider {
  /** Shown as `metadata.source`. */
  abstract readonly name: string;
  /** Hits, best first. @throws ToolError UPSTREAM_ERROR, NETWORK_ERROR, AUTH_NOT_CONFIGURED */
  abstract search(query: string, maxResults: number, signal: AbortSignal): Promise<SearchResult[]>;
}
