import { readQuotas } from '@toolfleet/contracts/account';
import { isJsonObject } from '@toolfleet/contracts';
import type { DiscoverMessage } from '@toolfleet/contracts/execution';
import type { DefinitionAnnounce, DefinitionChanged } from '@toolfleet/contracts/registry';
import { QUEUES, SUBJECTS } from '@toolfleet/contracts/subjects';
import type { FleetFile } from '@toolfleet/fleet-file';
import { connectRedis, redisComponent, StoreWatch, toRedisOptions, workersAliveMs } from '@toolfleet/queue/redis';
import {
  environmentByPrefix,
  fleetFileReloader,
  loadFleetFile,
  SecretBox,
  type LifecycleComponent,
  type ServiceHost,
} from '@toolfleet/service';
import { guardedEgress } from '@toolfleet/service/egress';
import { connectNats, natsEndpoints } from '@toolfleet/service/nats';
import { Rounds } from '@toolfleet/resilience';
import { inUpstreamSpan } from '@toolfleet/telemetry';
import { EventReporter, type NatsClient } from '@toolfleet/transport';
import type { ToolSource } from '@toolfleet/contracts/tool-definition';
import type { ToolsetChanged } from '@toolfleet/contracts/toolset';
import { Catalog } from './catalog.js';
import { Declarations } from './redis-declarations.js';
import type { SourceLook } from './definition-store.js';
import { definitionEndpoints } from './definition.endpoint.js';
import { DefinitionService } from './definition-service.js';
import { QuarantineService } from './quarantine.js';
import { QuarantineRoutes } from './quarantine.routes.js';
import { RedisDefinitionStore } from './redis-definition-store.js';
import { RedisToolsetStore } from './redis-toolset-store.js';
import { RegistryEvents } from './registry-events.js';
import type { RegistryConfig } from './registry.config.js';
import { ShannonSourceRoutes, SourceRoutes } from './source.routes.js';
import { SourceStore } from './source-store.js';
import { FleetSources, SOURCE_FAULT } from './sources/fleet-sources.js';
import { SourceInspector } from './sources/source-inspector.js';
import { McpSource } from './sources/mcp.source.js';
import { OpenApiConversions } from './sources/openapi-convert.js';
import { OpenApiSource } from './sources/openapi.source.js';
import { PythonSource } from './sources/python.source.js';
import { Registrations } from './sources/registrations.js';
import { createSealFor } from './sources/secrets.js';
import { SourceStatuses } from './sources/source-statuses.js';
import type { SourceDeps } from './sources/source-watch.js';
import { sourceTenant, toOwner } from './tool-key.js';
import { readMcpCosts, RegisteredOverrides } from './tool-overrides.js';
import { ToolsetRoutes } from './toolset.routes.js';
import { ToolsetService } from './toolset-service.js';

/** Price of MCP and OpenAPI tools that declare none: 0.001 USD. */
const REMOTE_COST_MICRO_USD = 1_000;

/**
 * Converting a large document blocks the event loop for seconds. A reply that waits in the socket meanwhile must not count as a
 * Redis that hangs.
 */
const STORE_TIMEOUT_MS = 10_000;

const ROUTES = [QuarantineRoutes, ShannonSourceRoutes, SourceRoutes, ToolsetRoutes];

/** The components of the service in start order: brokers, catalog, endpoints, and last the sources that register tools. */
export function registryComponents(settings: RegistryConfig, host: ServiceHost): LifecycleComponent[] {
  const { clock, logger, metrics, faults } = host;
  const nats = connectNats(settings, host);
  // While Redis is unavailable commands fail at once and the catalog in memory answers. All scripts are safe to repeat.
  const redis = connectRedis(settings.REDIS_URL, {
    name: 'registry',
    ...toRedisOptions(settings),
    resend: true,
    commandTimeoutMs: STORE_TIMEOUT_MS,
    log: logger,
  });
  const publish = (change: DefinitionChanged): void => {
    const { version, source, added, changed, removed } = change;
    const counts = { added: added.length, changed: changed.length, removed: removed.length };
    logger.info({ version, source, ...counts }, 'the catalog changed');
    reportEvents();
    if (nats.connected) nats.publish(SUBJECTS.definitionChanged, change);
  };
  const file = loadFleetFile(settings);
  const quotas = readQuotas(settings.TENANT_QUOTAS);
  const store = new RedisDefinitionStore(redis, quotas);
  const catalog = new Catalog(store, clock);
  const definitions = new DefinitionService(store, catalog, toolOverrides(settings, file), clock, publish);
  const quarantine = new QuarantineService(store, catalog, clock, publish, logger);
  const sourceStore = new SourceStore(store);
  const reporter = new EventReporter({ service: 'registry', nats, clock, logger });
  const events = new RegistryEvents(store, catalog, (event) => reporter.report(event));
  const reportEvents = (): void =>
    void events.reportAll().catch((error: unknown) => logger.debug({ error }, 'events are reported later'));
  const { client: egress, allowedEndpoints, components: guard } = wireEgress(settings, host);
  const box = settings.REGISTRY_SECRET_KEY === undefined ? undefined : new SecretBox(settings.REGISTRY_SECRET_KEY);
  const openApiSealFor = createSealFor('openapi', box);
  const mcpSealFor = createSealFor('mcp', box);
  const keepLook = async (source: ToolSource, look: SourceLook): Promise<void> => {
    // Sources of tenants concern their administrators, who see them at /api/v1/sources.
    if (sourceTenant(source) === undefined)
      faults.set(SOURCE_FAULT + toOwner(source), look.error === undefined ? [] : [look.error]);
    await store
      .keepLook(toOwner(source), look)
      .catch((error: unknown) => logger.debug({ error, source }, 'the look at a source is not recorded'));
    if (look.error !== undefined) reportEvents();
  };
  const python = new PythonSource(() => workersAliveMs(redis, QUEUES.pythonRuns), definitions, host);
  const conversions = new OpenApiConversions(egress, clock, settings.OPENAPI_MAX_SPEC_SIZE);
  const register: SourceDeps['register'] = (message, footing) => definitions.register(message, footing);
  const discover = (message: DiscoverMessage, timeoutMs: number) =>
    nats.ask('exec.mcp.discover', message, { timeoutMs });
  const openapi = new OpenApiSource(
    { register, keepLook, egress, conversions, sealFor: openApiSealFor },
    {
      maxSpecBytes: settings.OPENAPI_MAX_SPEC_SIZE,
      fetchTimeoutMs: settings.OPENAPI_FETCH_TIMEOUT * 1_000,
      refreshMs: OPENAPI_REFRESH_MS,
      specDirectory: settings.OPENAPI_SPEC_DIR,
    },
    clock,
    logger,
  );
  const mcp = new McpSource({ discover, register, keepLook }, clock, logger);
  const toolsets = new ToolsetService(
    file,
    new RedisToolsetStore(redis, quotas.toolset_bytes),
    catalog,
    host,
    new Declarations(redis, 'toolsets'),
    (id) => {
      const message: ToolsetChanged = { id };
      if (nats.connected) nats.publish(SUBJECTS.toolsetChanged, message);
    },
    quotas.toolsets,
  );
  const sources = new FleetSources(
    file,
    {
      python,
      openapi,
      mcp,
      mcpSealFor,
      definitions,
      sourceStore,
      declarations: new Declarations(redis, 'sources'),
      onRound: () => {
        reportEvents();
        return toolsets.removeUndeclared();
      },
    },
    host,
  );
  const reloader = fleetFileReloader(settings, file, host, async (changed) => {
    const ignored = await sources.apply(changed);
    await toolsets.apply(changed);
    return ignored;
  });
  const injected = [
    quarantine,
    sources,
    toolsets,
    new SourceStatuses(store, catalog, () => sources.declared),
    new SourceInspector({ validate: (message) => openapi.validate(message), discover, egress }),
    allowedEndpoints,
    new Registrations({ openapi, mcp, sources: sourceStore, sealFor: { openapi: openApiSealFor, mcp: mcpSealFor } }),
  ];
  const controllers = [...definitionEndpoints({ catalog, definitions, sources, toolsets }), ...ROUTES];
  const [endpoints, heartbeat] = natsEndpoints(nats, host, controllers, injected);
  metrics.onScrape(async () => {
    await catalog.refresh();
    countTools(catalog, host);
  });
  return [
    nats.asComponent(),
    reporter,
    redisComponent(redis, settings.REDIS_URL),
    new StoreWatch(redis, settings.REDIS_URL, host),
    ...guard,
    { name: 'conversions', stop: async () => conversions.close() },
    { name: 'catalog', start: () => catalog.refresh() },
    livenessSweeper(definitions, host),
    endpoints,
    announcements(catalog, mcp, nats),
    sources,
    toolsets,
    reloader,
    heartbeat,
  ];
}

/** At its start the registry asks executors to announce their tools; none is marked unavailable before they had time to answer. */
const FIRST_SWEEP_MS = 2_000;
/** Interval at which executors that stopped announcing are detected: calls to them fail until then. */
const PRESENCE_MS = 1_000;
/** Age at which the document of a `spec_url` without `refresh_seconds` is read again. */
const OPENAPI_REFRESH_MS = 3_600_000;

/** Periodically marks executors that stopped announcing. Their tools stay listed as unavailable. */
function livenessSweeper(definitions: DefinitionService, { clock, logger }: ServiceHost): Rounds {
  return new Rounds({
    name: 'presence',
    clock,
    everyMs: PRESENCE_MS,
    firstMs: FIRST_SWEEP_MS,
    work: async () => {
      for (const owner of await definitions.expire())
        logger.warn({ source: owner }, 'a source stopped announcing; its tools are unavailable');
    },
    onFailure: (error) => logger.warn({ error }, 'the liveness of executors cannot be checked'),
  });
}

/** Sets the gauges of tools per executor and of quarantined tools per source. The tenant is removed from the label to bound its values. */
function countTools(catalog: Catalog, { metrics }: ServiceHost): void {
  metrics.tools.reset();
  for (const [executor, count] of catalog.countByExecutor()) metrics.tools.set({ executor }, count);
  metrics.toolQuarantined.reset();
  for (const { definition } of catalog.quarantined()) {
    metrics.toolQuarantined.inc({ source: definition.source.name.replace(/@.*/, '') });
  }
}

/** @throws FatalStartupError for a price that is none */
function toolOverrides(settings: RegistryConfig, file: FleetFile): RegisteredOverrides {
  return new RegisteredOverrides({
    pythonRateLimit: settings.PYTHON_EXECUTOR_RATE_LIMIT,
    mcpRateLimit: settings.MCP_RATE_LIMIT_DEFAULT,
    remoteCostMicroUsd: REMOTE_COST_MICRO_USD,
    mcpCostMicroUsd: readMcpCosts(environmentByPrefix('MCP_COST_')),
    settings: file.tool_settings,
  });
}

function wireEgress(settings: RegistryConfig, host: ServiceHost) {
  const allowlist = settings.OPENAPI_ALLOWED_DOMAINS;
  if (allowlist.includes('*')) host.logger.warn('OPENAPI_ALLOWED_DOMAINS=* lets tools reach every public host');
  return guardedEgress(settings, host, 'egress', {
    trace: inUpstreamSpan,
    allowlist,
    allowlistKey: 'OPENAPI_ALLOWED_DOMAINS',
    allowAnyHost: settings.EGRESS_ALLOW_ANY_HOST,
    limits: { maxBytes: settings.OPENAPI_MAX_SPEC_SIZE },
  });
}

/** Listens for MCP servers with changed lists, and asks executors that are already running to announce their tools again. */
function announcements(catalog: Catalog, mcp: McpSource, nats: NatsClient): LifecycleComponent {
  return {
    name: 'announcements',
    start: async () => {
      nats.subscribe(SUBJECTS.execMcpChanged, ({ body }) => {
        if (isJsonObject(body) && typeof body['server'] === 'string') mcp.changed(body['server']);
      });
      const message: DefinitionAnnounce = { version: catalog.version };
      nats.publish(SUBJECTS.definitionAnnounce, message);
    },
  };
}
