import {
  BoundedWork,
  definitionOf,
  MANIFEST,
  PluginFolder,
  ToolRunner,
  toolsetOf,
  toolsOf,
} from '@toolfleet/builtin-tools';
import { toolsetSource, type Toolset, type ToolSource } from '@toolfleet/contracts/tool-definition';
import { IdempotentOnlyGuard, type ExecutionGuard } from '@toolfleet/journal';
import { microservicePart, type ServiceHost, type LifecycleComponent } from '@toolfleet/service';
import { NatsClient, natsOptionsOf, NatsStrategy, Heartbeat } from '@toolfleet/transport';
import { ToolAnnouncer, type AnnouncedSource } from './announce-tools.js';
import type { BuiltinExecutorConfig } from './builtin-executor.config.js';
import { BuiltinExecutorModule } from './builtin-executor.module.js';
import { PluginWatch } from './plugin-watch.js';
import type { RedisParts } from './redis-parts.js';
import { ToolEgress } from './tool-egress.js';
import { toolFigures } from './tool-figures.js';
import { toolServices } from './tool-services.js';

/** Where `fleetctl tool new` writes, seen from the root of the repository. */
const LOCAL_PLUGINS = 'plugins';
/** How often local mode looks for changed plugins. */
const LOCAL_RELOAD_MS = 1_000;

/** The parts of builtin-executor, in the order they start. */
export async function buildParts(settings: BuiltinExecutorConfig, host: ServiceHost): Promise<LifecycleComponent[]> {
  const { clock, logger, metrics } = host;
  const toolsets = settings.BUILTIN_TOOLSETS as readonly Toolset[];
  const nats = NatsClient.create({ ...natsOptionsOf(settings), name: 'builtin-executor', clock, metrics });
  const bounded = new BoundedWork(clock, settings.BUILTIN_BOUNDED_PROCESSES);
  const egress = new ToolEgress(settings, host);
  const services = toolServices(toolsets, { settings, host, bounded, egress, nats });
  const toolbox = new ToolRunner(toolsOf(toolsets), services, clock, (tool, error) =>
    logger.error({ tool, error }, 'a tool failed unexpectedly'),
  );
  const redis = settings.REDIS_URL === undefined ? undefined : await redisOf(settings.REDIS_URL, settings, host);
  const gate =
    redis?.gate ??
    new IdempotentOnlyGuard(({ binding }) => binding.kind === 'builtin' && toolbox.isIdempotent(binding.handler));
  const plugins = pluginsOf(settings, host, toolbox, () => announcer.announceSoon());
  const announcer = new ToolAnnouncer(
    nats,
    clock,
    logger,
    sourcesOf(settings, toolbox, plugins),
    settings.BUILTIN_ANNOUNCE_TTL_MS,
  );
  const resources: LifecycleComponent = {
    name: 'tool resources',
    stop: async () => {
      bounded.close();
      await egress.close();
    },
  };
  return [
    nats.asPart(),
    ...(redis?.connections ?? []),
    resources,
    ...(plugins ? [plugins] : []),
    ...natsDoors(settings, toolbox, gate, nats, host),
    ...(redis && toolsets.includes('agent') ? [redis.agentWorker(toolbox)] : []),
    announcer,
  ];
}

/** Loaded only where there is a Redis: toolsets without one carry no client of it. */
async function redisOf(url: string, settings: BuiltinExecutorConfig, host: ServiceHost): Promise<RedisParts> {
  const { redisParts } = await import('./redis-parts.js');
  return redisParts(url, settings, host);
}

/** The doors of the toolsets over NATS. */
function natsDoors(
  settings: BuiltinExecutorConfig,
  toolbox: ToolRunner,
  gate: ExecutionGuard,
  nats: NatsClient,
  { clock, logger }: ServiceHost,
): LifecycleComponent[] {
  const strategy = new NatsStrategy({
    connection: nats,
    queue: 'builtin-executor',
    concurrency: settings.BUILTIN_CONCURRENCY,
    clock,
    onFault: (error, subject) => logger.error({ error, subject }, 'an endpoint failed'),
    onStall: (stalledMs) =>
      logger.warn({ stalled_ms: stalledMs }, 'the event loop was held; calls that waited are refused'),
  });
  const module = BuiltinExecutorModule.of(settings.BUILTIN_TOOLSETS as readonly Toolset[], toolbox, gate);
  const beacon = new Heartbeat(nats, clock, {
    service: 'builtin-executor',
    slots: () => ({ busy: strategy.inFlight, total: strategy.capacity }),
  });
  return [microservicePart({ name: 'nats doors', module, strategy, logger }), beacon];
}

function pluginsOf(
  settings: BuiltinExecutorConfig,
  { clock, logger }: ServiceHost,
  toolbox: ToolRunner,
  onChange: () => void,
): PluginWatch | undefined {
  const path = settings.BUILTIN_PLUGINS_DIR ?? (settings.TOOLFLEET_LOCAL ? LOCAL_PLUGINS : undefined);
  if (path === undefined) return undefined;
  const folder = new PluginFolder(path, new Set(MANIFEST.map((tool) => tool.metadata.name)));
  const everyMs = settings.BUILTIN_PLUGINS_RELOAD_MS ?? (settings.TOOLFLEET_LOCAL ? LOCAL_RELOAD_MS : undefined);
  return new PluginWatch(
    folder,
    toolbox,
    settings.BUILTIN_TOOLSETS as readonly Toolset[],
    clock,
    logger,
    everyMs,
    onChange,
  );
}

/** A source per toolset: replicas of one toolset announce the same tools, those of another one do not retire them. */
function sourcesOf(
  settings: BuiltinExecutorConfig,
  toolbox: ToolRunner,
  plugins: PluginWatch | undefined,
): AnnouncedSource[] {
  const figures = toolFigures(settings);
  return (settings.BUILTIN_TOOLSETS as readonly Toolset[]).flatMap((toolset) => {
    const announced = (source: ToolSource, own: (name: string) => boolean): AnnouncedSource => ({
      toolset,
      source,
      definitions: () =>
        toolbox.tools
          .filter((tool) => toolsetOf(tool) === toolset && own(tool.metadata.name))
          .map((tool) => definitionOf(tool, source, figures)),
    });
    const isPlugin = (name: string) => plugins?.names.has(name) ?? false;
    const builtin = announced(toolsetSource('builtin', toolset), (name) => !isPlugin(name));
    return plugins ? [builtin, announced(toolsetSource('plugin', toolset), isPlugin)] : [builtin];
  });
}
