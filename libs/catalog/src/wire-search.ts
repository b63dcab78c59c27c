import type { LifecycleComponent, ServiceHost } from '@toolfleet/service';
import type { FinishedCall } from '@toolfleet/contracts/records';
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
  /** 0: no calls are recorded, and there is nothing to learn from. */
  GATEWAY_CALL_SPOOL: number;
}

interface SearchDeps {
  list: ToolList;
  historyStore: SearchHistoryStore;
  /** The newest calls of a tenant, oldest first. */
  finishedCalls(tenantId: string): Promise<readonly FinishedCall[]>;
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
  { historyStore: store, finishedCalls }: SearchDeps,
): SearchHistory | undefined {
  const {
    TOOL_SEARCH_HISTORY: isOn,
    TOOL_SEARCH_HISTORY_EXCEPT: exceptTenants,
    GATEWAY_CALL_SPOOL: spooled,
  } = settings;
  if (!isOn || spooled === 0) return undefined;
  return new SearchHistory({ store, finishedCalls, exceptTenants, clock });
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
