import {
  BoundedWork,
  toToolDefinition,
  MANIFEST,
  PluginFolder,
  PluginProcesses,
  ToolRunner,
  getToolset,
  selectTools,
  type ToolOverrides,
  type Workspaces,
} from '@toolfleet/builtin-tools';
import { PURGE_TURN_MS, type PurgeMessage, type PurgeReply } from '@toolfleet/contracts/purge';
import { builtinSubject, toolsetExecutor } from '@toolfleet/contracts/subjects';
import { GATEWAY_TOOLS, toolsetSource, type Toolset, type ToolSource } from '@toolfleet/contracts/tool-definition';
import type { Clock } from '@toolfleet/resilience';
import { fleetFileReloader, foreignEnvironment, loadFleetFile, type ServiceHost } from '@toolfleet/service';
import type { ExecutorDefinition } from '@toolfleet/service/executor';
import { builtinExecutorConfig, type BuiltinExecutorConfig } from './builtin-executor.config.js';
import { PluginWatcher } from './plugin-watcher.js';
import { ToolAnnouncer, type AnnouncedSource } from './tool-announcer.js';
import { toolServices } from './tool-services.js';

/** Where `fleetctl tool new` writes, relative to the root of the repository. */
const LOCAL_PLUGINS = 'plugins';
/** Heap of a process of plugins. */
const PLUGIN_HEAP_MB = 512;
/** Children for patterns, queries, schemas and pages of unbounded cost: one may be busy until its limit while the other works. */
const BOUNDED_PROCESSES = 2;
/** Age at which announced tools count as unavailable: three announcements may be lost. */
const ANNOUNCE_TTL_MS = 30_000;
/** How often local mode checks the plugins for changes. */
const LOCAL_RELOAD_MS = 1_000;

/** An exception and the line that threw it. */
function thrownAt(error: unknown): string {
  const lines = error instanceof Error && error.stack ? error.stack.split('\n', 2) : [String(error)];
  return lines.map((line) => line.trim()).join(' ');
}

/** The executor of builtin tools and plugins. Toolset `agent` is fed by a queue, the others by NATS. */
export const builtinExecutor: ExecutorDefinition<(typeof builtinExecutorConfig)['table']> = {
  config: builtinExecutorConfig,
  concurrency: (settings) => settings.EXECUTOR_CONCURRENCY,
  sharesRedis: true,
  async build(settings, deps) {
    const { clock, logger } = deps.host;
    const toolsets = settings.BUILTIN_TOOLSETS as readonly Toolset[];
    const bounded = new BoundedWork(clock, BOUNDED_PROCESSES);
    const file = loadFleetFile(settings);
    const services = toolServices(toolsets, { settings, bounded, executor: deps, subAgent: file.sub_agent });
    const runner = new ToolRunner(selectTools(toolsets), services, clock, (tool, error) => {
      logger.error({ tool, error }, 'a tool failed unexpectedly');
      // Who calls a tool on this machine also writes it.
      return settings.TOOLFLEET_LOCAL ? thrownAt(error) : undefined;
    });
    const processes = new PluginProcesses(clock, {
      size: settings.BUILTIN_PLUGIN_PROCESSES,
      heapMb: PLUGIN_HEAP_MB,
      environment: foreignEnvironment,
    });
    const plugins = pluginWatcher(settings, deps.host, { runner, processes }, () => announcer.announceSoon());
    const announcer = new ToolAnnouncer(
      deps.nats,
      deps.host,
      announcedSources(settings, runner, plugins),
      ANNOUNCE_TTL_MS,
    );
    // Loaded only here, so that other toolsets do not load BullMQ.
    const agents = toolsets.includes('agent')
      ? (await import('./agent-queue.js')).agentQueue(runner, settings, deps)
      : [];
    const overNats = toolsets.filter((toolset) => toolset !== 'agent');
    return {
      subjects: overNats.map(builtinSubject),
      classes: overNats.map(toolsetExecutor),
      async execute(message, { signal, deadlineAt, progress }, begin) {
        await begin();
        return runner.run(message, { signal, deadlineAt, progress });
      },
      requests: services.workspaces ? { 'workspace.purge': purgeWorkspaces(services.workspaces, clock) } : undefined,
      isIdempotent: ({ binding }) => binding.kind === 'builtin' && runner.isIdempotent(binding.handler),
      before: [fleetFileReloader(settings, file, deps.host), ...(plugins ? [plugins] : [])],
      after: [...agents, announcer],
      close: () => {
        bounded.close();
        processes.close();
      },
    };
  },
};

/** The endpoint that removes workspaces; only processes with the toolset `files` have it. */
function purgeWorkspaces(workspaces: Workspaces, clock: Clock) {
  return async ({ tenant_id: tenantId, user_id: userId, dry_run: dryRun }: PurgeMessage): Promise<PurgeReply> => {
    const until = clock.monotonic() + PURGE_TURN_MS;
    const { files, more } = await workspaces.purge({ tenantId, userId }, dryRun, () => clock.monotonic() > until);
    return { counts: { files }, more };
  };
}

function pluginWatcher(
  settings: BuiltinExecutorConfig,
  { clock, logger, faults }: ServiceHost,
  { runner, processes }: { runner: ToolRunner; processes: PluginProcesses },
  onChange: () => void,
): PluginWatcher | undefined {
  const path = settings.BUILTIN_PLUGINS_DIR ?? (settings.TOOLFLEET_LOCAL ? LOCAL_PLUGINS : undefined);
  if (path === undefined) return undefined;
  const reserved = new Set([...MANIFEST.map((tool) => tool.metadata.name), ...GATEWAY_TOOLS]);
  const folder = new PluginFolder(path, reserved, processes);
  const everyMs = settings.TOOLFLEET_LOCAL ? LOCAL_RELOAD_MS : undefined;
  const toolsets = settings.BUILTIN_TOOLSETS as readonly Toolset[];
  return new PluginWatcher({ folder, runner, toolsets, clock, logger, faults, everyMs, onChange });
}

/** One source per toolset, because replicas with other toolsets must not unregister its tools; plugins are a separate source. */
function announcedSources(
  settings: BuiltinExecutorConfig,
  runner: ToolRunner,
  plugins: PluginWatcher | undefined,
): AnnouncedSource[] {
  const overrides = toolOverrides(settings);
  const isPlugin = (name: string) => plugins?.names.has(name) ?? false;
  return (settings.BUILTIN_TOOLSETS as readonly Toolset[]).flatMap((toolset) => {
    const announced = (source: ToolSource, includes: (name: string) => boolean): AnnouncedSource => ({
      toolset,
      source,
      definitions: () =>
        runner.tools
          .filter((tool) => getToolset(tool) === toolset && includes(tool.metadata.name))
          .map((tool) => toToolDefinition(tool, source, overrides)),
    });
    const builtin = announced(toolsetSource('builtin', toolset), (name) => !isPlugin(name));
    return plugins ? [builtin, announced(toolsetSource('plugin', toolset), isPlugin)] : [builtin];
  });
}

/** Prices and rate limits that the operator configured. */
function toolOverrides(settings: BuiltinExecutorConfig): ToolOverrides {
  return {
    rateLimits: {
      calculator: settings.CALCULATOR_RATE_LIMIT,
      web_search: settings.WEB_SEARCH_RATE_LIMIT,
      ...parseAmounts(settings.BUILTIN_RATE_LIMITS),
    },
    costsMicroUsd: parseAmounts(settings.BUILTIN_COSTS_MICRO_USD),
  };
}

/** Items of the form `tool=number`; the configuration has checked them. */
function parseAmounts(items: readonly string[]): Record<string, number> {
  return Object.fromEntries(
    items.map((item) => {
      const [tool = '', amount] = item.split('=');
      return [tool, Number(amount)];
    }),
  );
}
