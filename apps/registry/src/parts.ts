import { isJsonObject } from '@toolfleet/contracts';
import type { DiscoverReply } from '@toolfleet/contracts/execution';
import type { DefinitionAnnounce } from '@toolfleet/contracts/registry';
import { QUEUES, SUBJECTS } from '@toolfleet/contracts/subjects';
import { EgressClient } from '@toolfleet/egress';
import { connectRedis, redisOptionsOf, redisPart, workersAliveMs } from '@toolfleet/queue/redis';
import {
  environmentByPrefix,
  fleetFileOf,
  microservicePart,
  SecretBox,
  type ServiceHost,
  type LifecycleComponent,
} from '@toolfleet/service';
import { inUpstreamSpan } from '@toolfleet/telemetry';
import { NatsClient, natsOptionsOf, NatsStrategy } from '@toolfleet/transport';
import { Catalog } from './catalog.js';
import { Figures } from './figures.js';
import { Presence } from './presence.js';
import { AuditLog } from './quarantine.endpoint.js';
import { RedisDefinitionStore } from './redis-definition-store.js';
import { Registrar } from './registrar.js';
import { Registrations } from './registrations.js';
import { mcpCosts, type RegistryConfig } from './registry.config.js';
import { RegistryModule, type RegistryServices } from './registry.module.js';
import { FleetSources } from './sources/fleet-sources.js';
import { KeptOpenApiSource } from './sources/kept-openapi.source.js';
import { sealFor } from './sources/openapi-secrets.js';
import { McpSeal } from './sources/mcp.endpoint.js';
import { McpSource } from './sources/mcp.source.js';
import { RemotePins } from './sources/pin.js';
import { PythonSource } from './sources/python.source.js';

/** Price of MCP and OpenAPI tools that declare none: 0.001 USD. */
const REMOTE_COST_MICRO_USD = 1_000;

/** A large document keeps the event loop busy for seconds; an answer that waits in the socket is not a Redis that hangs. */
const STORE_PATIENCE_MS = 10_000;

/** The parts of the service in the order in which they start: brokers, catalog, the door, and last what announces. */
export function registryParts(settings: RegistryConfig, host: ServiceHost): LifecycleComponent[] {
  const { clock, logger } = host;
  const nats = NatsClient.create({ ...natsOptionsOf(settings), name: 'registry', clock, metrics: host.metrics });
  // While Redis is away commands fail at once, and the catalog in memory answers; every script of ours may run twice.
  const redis = connectRedis(settings.REDIS_URL, {
    name: 'registry',
    ...redisOptionsOf(settings),
    resend: true,
    commandTimeoutMs: STORE_PATIENCE_MS,
    log: logger,
  });
  const store = new RedisDefinitionStore(redis);
  const catalog = new Catalog(store, clock);
  const pins = new RemotePins();
  const registrar = new Registrar(store, catalog, { figures: figuresOf(settings), pins }, clock, (change) => {
    const { version, source, added, changed, removed } = change;
    const counts = { added: added.length, changed: changed.length, removed: removed.length };
    logger.info({ version, source, ...counts }, 'the catalog changed');
    if (nats.connected) nats.publish(SUBJECTS.definitionChanged, change);
  });
  host.metrics.onScrape(() => countQuarantined(catalog, host));
  const registrations = new Registrations(store);
  const egress = egressOf(settings, host);
  const python = new PythonSource(() => workersAliveMs(redis, QUEUES.pythonRuns), registrar, host);
  const { openapi, mcp, mcpSeal } = remoteSources(settings, host, { registrar, registrations, egress, nats });
  const sources = new FleetSources(
    fleetFileOf(settings),
    { python, openapi, mcp, mcpSealFor: mcpSeal.sealFor },
    registrar,
    registrations,
    host,
  );
  const audit = new AuditLog(logger);
  return [
    nats.asPart(),
    redisPart(redis, settings.REDIS_URL),
    { name: 'egress', stop: () => egress.close() },
    { name: 'catalog', start: () => catalog.refresh() },
    new Presence(registrar, settings.REGISTRY_PRESENCE_MS, clock, logger),
    natsDoor({ catalog, registrar, registrations, pins, audit, sources, openapi, mcp, mcpSeal }, nats, host),
    announcements(catalog, mcp, nats),
    sources,
  ];
}

/** Tools that await approval, per source; tenants are no part of a label. */
function countQuarantined(catalog: Catalog, { metrics }: ServiceHost): void {
  metrics.toolQuarantined.reset();
  for (const { definition } of catalog.quarantined()) {
    metrics.toolQuarantined.inc({ source: definition.source.name.replace(/@.*/, '') });
  }
}

function figuresOf(settings: RegistryConfig): Figures {
  return new Figures({
    pythonRateLimit: settings.PYTHON_EXECUTOR_RATE_LIMIT,
    mcpRateLimit: settings.MCP_RATE_LIMIT_DEFAULT,
    remoteCostMicroUsd: REMOTE_COST_MICRO_USD,
    mcpCostMicroUsd: mcpCosts(environmentByPrefix('MCP_COST_')),
  });
}

/** The sources that look at other people's documents and servers. */
function remoteSources(
  settings: RegistryConfig,
  { clock, logger }: ServiceHost,
  ports: { registrar: Registrar; registrations: Registrations; egress: EgressClient; nats: NatsClient },
): { openapi: KeptOpenApiSource; mcp: McpSource; mcpSeal: McpSeal } {
  const { registrar, registrations, egress, nats } = ports;
  const box = settings.REGISTRY_SECRET_KEY === undefined ? undefined : new SecretBox(settings.REGISTRY_SECRET_KEY);
  const sealOpenApi = sealFor('openapi', box);
  const sealMcp = sealFor('mcp', box);
  const openapi = new KeptOpenApiSource(
    registrations,
    sealOpenApi,
    { register: (message, footing) => registrar.register(message, footing), egress, sealFor: sealOpenApi },
    {
      maxSpecBytes: settings.OPENAPI_MAX_SPEC_SIZE,
      fetchTimeoutMs: settings.OPENAPI_FETCH_TIMEOUT * 1_000,
      refreshMs: settings.OPENAPI_REFRESH_SECONDS * 1_000,
      ...(settings.OPENAPI_SPEC_DIR === undefined ? {} : { specDirectory: settings.OPENAPI_SPEC_DIR }),
    },
    clock,
    logger,
  );
  const mcp = new McpSource(
    {
      discover: (message, timeoutMs) => nats.request<DiscoverReply>(SUBJECTS.execMcpDiscover, message, { timeoutMs }),
      register: (message, footing) => registrar.register(message, footing),
      sealFor: sealMcp,
    },
    clock,
    logger,
  );
  return { openapi, mcp, mcpSeal: new McpSeal(sealMcp) };
}

function egressOf(settings: RegistryConfig, { clock, logger, metrics }: ServiceHost): EgressClient {
  if (settings.OPENAPI_ALLOWED_DOMAINS.includes('*')) {
    logger.warn('OPENAPI_ALLOWED_DOMAINS=* lets documents be fetched from every public host');
  }
  return new EgressClient({
    trace: inUpstreamSpan,
    allowlist: settings.OPENAPI_ALLOWED_DOMAINS,
    allowAnyHost: settings.EGRESS_ALLOW_ANY_HOST,
    allowedEndpoints: settings.EGRESS_ALLOWED_ENDPOINTS,
    deniedCidrs: settings.EGRESS_DENIED_CIDRS,
    clock,
    onBlocked: (layer, reason) => metrics.egressBlocked.inc({ layer, reason }),
    limits: { maxBytes: settings.OPENAPI_MAX_SPEC_SIZE },
  });
}

/** Listens for servers whose lists changed, and asks executors that started earlier to announce their tools again. */
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

/** The endpoints over NATS. */
function natsDoor(services: RegistryServices, nats: NatsClient, { clock, logger }: ServiceHost): LifecycleComponent {
  const strategy = new NatsStrategy({
    connection: nats,
    queue: 'registry',
    clock,
    onFault: (error, subject) => logger.error({ error, subject }, 'a handler failed'),
  });
  return microservicePart({ name: 'door', module: RegistryModule.with(services), strategy, logger });
}
