import { BoundedWork, definitionOf, Toolbox, toolsetOf, toolsOf } from '@toolfleet/builtin-tools';
import type { Toolset } from '@toolfleet/contracts';
import type { ServiceHost, ServicePart } from '@toolfleet/service';
import { NatsClient } from '@toolfleet/transport';
import { ToolAnnouncer, type AnnouncedSource } from './announce-tools.js';
import type { BuiltinExecutorConfig } from './builtin-executor.config.js';
import { ClosedGate } from './effect-gate.js';
import { NatsDoors } from './nats-doors.js';
import { toolFigures } from './tool-figures.js';

/** The parts of builtin-executor, in the order they start. */
export function buildParts(settings: BuiltinExecutorConfig, host: ServiceHost): ServicePart[] {
  const { clock, logger, metrics } = host;
  const toolsets = settings.BUILTIN_TOOLSETS as readonly Toolset[];
  const nats = NatsClient.create({
    url: settings.NATS_URL,
    name: 'builtin-executor',
    clock,
    metrics,
    ...(settings.NATS_USER ? { user: settings.NATS_USER } : {}),
    ...(settings.NATS_PASSWORD ? { password: settings.NATS_PASSWORD } : {}),
    ...(settings.NATS_TLS_CA ? { tlsCa: settings.NATS_TLS_CA } : {}),
  });
  const bounded = new BoundedWork(clock);
  const toolbox = new Toolbox(toolsOf(toolsets), { bounded }, clock, (tool, error) =>
    logger.error({ tool, error }, 'a tool failed unexpectedly'),
  );
  const figures = toolFigures(settings);
  const sources = toolsets.map((toolset): AnnouncedSource => {
    const source = { kind: 'builtin' as const, name: `builtin.${toolset}` };
    return {
      source,
      definitions: () =>
        toolbox.tools.filter((tool) => toolsetOf(tool) === toolset).map((tool) => definitionOf(tool, source, figures)),
    };
  });
  const doors = new NatsDoors(
    {
      connection: nats,
      queue: 'builtin-executor',
      concurrency: settings.BUILTIN_CONCURRENCY,
      clock,
      onFault: (error, subject) => logger.error({ error, subject }, 'an endpoint failed'),
    },
    toolsets,
    toolbox,
    new ClosedGate(),
  );
  const work: ServicePart = { name: 'bounded work', stop: async () => bounded.close() };
  return [
    nats.asPart(),
    work,
    doors,
    new ToolAnnouncer(nats, clock, logger, sources, settings.BUILTIN_ANNOUNCE_TTL_MS),
  ];
}
