import {
  CatalogChanges,
  DefinitionCache,
  RedisSearchHistory,
  RegistrySource,
  SearchHistory,
  ToolList,
  ToolSearch,
  Toolsets,
} from '@toolfleet/catalog';
import { CallSight } from '@toolfleet/access';
import { pythonPolicy, withPythonDefaults } from '@toolfleet/engine-adapters';
import type { FleetFile } from '@toolfleet/fleet-file';
import { withLimits } from '@toolfleet/engine';
import { CallRecords } from '@toolfleet/records';
import { READ_RESULT } from '@toolfleet/results';
import type { LifecycleComponent, ServiceHost } from '@toolfleet/service';
import type { GatewayConfig } from '../gateway.config.js';
import type { Brokers } from './brokers.js';
import { CATALOG_TTL_MS, engineSettings } from './engine-settings.js';

/** The newest calls of a tenant that its searches learn from. */
const LEARNED_CALLS = 200;
/** One gateway per interval learns from the searches of a tenant. */
const LEARN_EVERY_MS = 50_000;

/** Which tools there are, and which of them and of their calls a caller may see. */
export type GatewayCatalog = ReturnType<typeof wireCatalog>;

/** Builds the lists of tools, features and toolsets, and the search over them. */
export function wireCatalog(
  settings: GatewayConfig,
  { clock }: ServiceHost,
  { nats, redis }: Brokers,
  { code_execution: sandbox, python_packages: packages }: FleetFile,
) {
  const limits = engineSettings(settings);
  const sandboxed = withPythonDefaults(pythonPolicy(sandbox), settings.WASI_MEMORY_LIMIT_MB, packages);
  const source = new RegistrySource(nats, (tool, tenantId) => withLimits(sandboxed(tool, tenantId), limits), [
    READ_RESULT,
  ]);
  const definitions = new DefinitionCache(source, clock, CATALOG_TTL_MS);
  const changes = new CatalogChanges();
  const toolsets = new Toolsets(source, definitions, clock, CATALOG_TTL_MS);
  const list = new ToolList(definitions, toolsets);
  const featureDefinitions = new DefinitionCache(source.features, clock, CATALOG_TTL_MS);
  const records = new CallRecords(nats);
  // Without records of calls there is nothing to learn from.
  const searchHistory =
    settings.GATEWAY_CALL_SPOOL > 0
      ? new SearchHistory({
          store: new RedisSearchHistory(redis, LEARN_EVERY_MS),
          finishedCalls: async (tenantId) => (await records.list({ tenant_id: tenantId, limit: LEARNED_CALLS })).calls,
          clock,
        })
      : undefined;
  const components: LifecycleComponent[] = [
    { name: 'catalog changes', start: async () => changes.follow(nats, [definitions, featureDefinitions], toolsets) },
  ];
  return {
    definitions,
    featureDefinitions,
    toolsets,
    changes,
    list,
    features: new ToolList(featureDefinitions, toolsets),
    search: new ToolSearch(list, searchHistory),
    searchHistory,
    sight: new CallSight(definitions),
    components,
  };
}
