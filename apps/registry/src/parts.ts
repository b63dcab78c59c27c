import type { INestMicroservice } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { SUBJECTS, type DefinitionAnnounce } from '@toolfleet/contracts';
import type { ServiceHost, ServicePart } from '@toolfleet/service';
import { NatsClient, NatsStrategy } from '@toolfleet/transport';
import { Catalog } from './catalog.js';
import { Figures } from './figures.js';
import { NoPins } from './pin-policy.js';
import { Presence } from './presence.js';
import { AuditLog } from './quarantine.endpoint.js';
import { createRedis } from './redis-client.js';
import { RedisDefinitionStore } from './redis-definition-store.js';
import { Registrar } from './registrar.js';
import type { RegistryConfig } from './registry.config.js';
import { RegistryModule, type RegistryServices } from './registry.module.js';

/** Price of MCP and OpenAPI tools that declare none: 0.001 USD (K!12). */
const REMOTE_COST_MICRO_USD = 1_000;

/** The parts of the service in the order in which they start: brokers, catalog, the door, and last what announces. */
export function registryParts(settings: RegistryConfig, host: ServiceHost): ServicePart[] {
  const { clock, logger } = host;
  const nats = NatsClient.create({
    url: settings.NATS_URL,
    name: 'registry',
    clock,
    metrics: host.metrics,
    ...(settings.NATS_USER === undefined ? {} : { user: settings.NATS_USER }),
    ...(settings.NATS_PASSWORD === undefined ? {} : { password: settings.NATS_PASSWORD }),
    ...(settings.NATS_TLS_CA === undefined ? {} : { tlsCa: settings.NATS_TLS_CA }),
  });
  const { redis, part: redisPart } = createRedis(settings.REDIS_URL, settings.REDIS_PASSWORD);
  const store = new RedisDefinitionStore(redis);
  const catalog = new Catalog(store, clock);
  const pins = new NoPins();
  const figures = new Figures({
    pythonRateLimit: settings.PYTHON_EXECUTOR_RATE_LIMIT,
    mcpRateLimit: settings.MCP_RATE_LIMIT_DEFAULT,
    remoteCostMicroUsd: REMOTE_COST_MICRO_USD,
    mcpCostMicroUsd: new Map(),
  });
  const registrar = new Registrar(store, catalog, { figures, pins }, clock, (change) => {
    const { version, source, added, changed, removed } = change;
    logger.info(
      { version, source, added: added.length, changed: changed.length, removed: removed.length },
      'the catalog changed',
    );
    if (nats.connected) nats.publish(SUBJECTS.definitionChanged, change);
  });
  return [
    nats.asPart(),
    redisPart,
    { name: 'catalog', start: () => catalog.refresh() },
    new Presence(registrar, settings.REGISTRY_PRESENCE_MS, clock, logger),
    natsDoor({ catalog, registrar, pins, audit: new AuditLog(logger) }, nats, host),
    askForAnnouncements(catalog, nats),
  ];
}

/** Executors announce when they start; whoever started before this process does it again. */
function askForAnnouncements(catalog: Catalog, nats: NatsClient): ServicePart {
  return {
    name: 'announcements',
    start: async () => {
      const message: DefinitionAnnounce = { version: catalog.version };
      nats.publish(SUBJECTS.definitionAnnounce, message);
    },
  };
}

/** Nest over NATS. It drains first, so that every answer is still sent. */
function natsDoor(services: RegistryServices, nats: NatsClient, host: ServiceHost): ServicePart {
  const strategy = new NatsStrategy({
    connection: nats,
    queue: 'registry',
    clock: host.clock,
    onFault: (error, subject) => host.logger.error({ error, subject }, 'a handler failed'),
  });
  let app: INestMicroservice | undefined;
  return {
    name: 'door',
    start: async () => {
      app ??= await NestFactory.createMicroservice(RegistryModule.with(services), { strategy, logger: false });
      await app.listen();
    },
    drain: () => strategy.drain(),
    stop: async () => app?.close(),
  };
}
