import type { LifecycleComponent, ServiceHost } from '@toolfleet/service';
import type { RecentCall } from '@toolfleet/contracts/fleet';
import { Embeddings } from './embeddings.js';
import { SearchHistory, type SearchHistoryStore } from './search-history.js';
import type { ToolList } from './tool-list.js';
import { ToolSearch } from './tool-search.js';
import { ToolVectors } from './tool-vectors.js';

/** Settings of the gateway that concern searches for tools. */
interface SearchSettings {
  TOOL_SEARCH_HISTORY: boolean;
  TOOL_SEARCH_HISTORY_EXCEPT: readonly string[];
  TOOL_SEARCH_EMBEDDINGS_URL?: string | undefined;
  TOOL_SEARCH_EMBEDDINGS_KEY?: string | undefined;
  TOOL_SEARCH_EMBEDDINGS_MODEL: string;
  TOOL_SEARCH_EMBEDDINGS_DIMENSIONS: number;
  TOOL_SEARCH_EMBEDDINGS_TIMEOUT_MS: number;
  /** Calls kept per tenant; 0: none, and nothing to learn from. */
  GATEWAY_RECENT_CALLS: number;
}

interface SearchDeps {
  list: ToolList;
  historyStore: SearchHistoryStore;
  /** The newest calls of a tenant, oldest first. */
  recentCalls(tenantId: string): Promise<readonly RecentCall[]>;
}

/** The search, and its history for purges; undefined while none is kept. */
export function wireSearch(settings: SearchSettings, host: ServiceHost, deps: SearchDeps) {
  const history = searchHistory(settings, host, deps);
  const { vectors, components } = toolVectors(settings, host);
  return { search: new ToolSearch(deps.list, { history, vectors }), history, components };
}

function searchHistory(
  settings: SearchSettings,
  { clock }: ServiceHost,
  { historyStore: store, recentCalls }: SearchDeps,
): SearchHistory | undefined {
  const { TOOL_SEARCH_HISTORY: isOn, TOOL_SEARCH_HISTORY_EXCEPT: exceptTenants, GATEWAY_RECENT_CALLS: kept } = settings;
  if (!isOn || kept === 0) return undefined;
  return new SearchHistory({ store, recentCalls, exceptTenants, clock });
}

function toolVectors(
  settings: SearchSettings,
  { clock, logger }: ServiceHost,
): { vectors?: ToolVectors; components: LifecycleComponent[] } {
  const { TOOL_SEARCH_EMBEDDINGS_URL: url } = settings;
  if (url === undefined) return { components: [] };
  const embeddings = new Embeddings(
    {
      url,
      apiKey: settings.TOOL_SEARCH_EMBEDDINGS_KEY,
      model: settings.TOOL_SEARCH_EMBEDDINGS_MODEL,
      dimensions: settings.TOOL_SEARCH_EMBEDDINGS_DIMENSIONS || undefined,
    },
    clock,
  );
  const vectors = new ToolVectors({
    embeddings,
    timeoutMs: settings.TOOL_SEARCH_EMBEDDINGS_TIMEOUT_MS,
    clock,
    onFailure: (error) => logger.warn({ error }, 'no embeddings; searches use words only'),
  });
  return { vectors, components: [{ name: 'embeddings', stop: () => embeddings.close() }] };
}
