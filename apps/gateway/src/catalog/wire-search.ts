import type { LifecycleComponent, ServiceHost } from '@toolfleet/service';
import type { Brokers } from '../brokers.js';
import type { GatewayConfig } from '../gateway.config.js';
import { RedisRecentCalls } from '../recent-calls/redis-recent-calls.js';
import { Embeddings } from './embeddings.js';
import { RedisSearchHistory } from './redis-search-history.js';
import { SearchHistory } from './search-history.js';
import type { ToolList } from './tool-list.js';
import { ToolSearch } from './tool-search.js';
import { ToolVectors } from './tool-vectors.js';

/** One gateway per interval learns from the searches of a tenant. */
const LEARN_EVERY_MS = 50_000;

/** The search, and its history for purges; undefined while none is kept. */
export function wireSearch(settings: GatewayConfig, host: ServiceHost, redis: Brokers['redis'], list: ToolList) {
  const history = searchHistory(settings, host, redis);
  const { vectors, components } = toolVectors(settings, host);
  return { search: new ToolSearch(list, { history, vectors }), history, components };
}

function searchHistory(
  settings: GatewayConfig,
  { clock }: ServiceHost,
  redis: Brokers['redis'],
): SearchHistory | undefined {
  const { TOOL_SEARCH_HISTORY: isOn, TOOL_SEARCH_HISTORY_EXCEPT: exceptTenants, GATEWAY_RECENT_CALLS: kept } = settings;
  if (!isOn || kept === 0) return undefined;
  const recentCalls = new RedisRecentCalls(redis, kept);
  return new SearchHistory({
    store: new RedisSearchHistory(redis, LEARN_EVERY_MS),
    recentCalls: (tenantId) => recentCalls.read({ tenantId }, kept),
    exceptTenants,
    clock,
  });
}

function toolVectors(
  settings: GatewayConfig,
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
