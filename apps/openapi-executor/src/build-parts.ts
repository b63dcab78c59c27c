import type { INestMicroservice } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { SUBJECTS } from '@toolfleet/contracts';
import { EgressClient } from '@toolfleet/egress';
import { RedisJournal } from '@toolfleet/journal';
import { BreakerMap } from '@toolfleet/resilience';
import { SecretBox, VariableExpander, VERSION, type ServiceHost, type ServicePart } from '@toolfleet/service';
import { NatsClient, NatsStrategy } from '@toolfleet/transport';
import { Credentials } from './credentials.js';
import { JournalGate } from './effect-gate.js';
import { logRequest } from './log-request.js';
import { OAuthTokens } from './oauth-tokens.js';
import { OpenApiExecutor } from './openapi-executor.js';
import { openapiExecutorConfig, type OpenApiExecutorConfig } from './openapi-executor.config.js';
import { OpenApiExecutorModule } from './openapi-executor.module.js';
import { journalConnection } from './redis-journal-connection.js';
import { VendorAdapters } from './vendor-adapters/find-adapter.js';

const BREAKER_GAUGE = { closed: 0, half_open: 1, open: 2 } as const;

/** The parts of openapi-executor, in the order they start. */
export function buildParts(settings: OpenApiExecutorConfig, host: ServiceHost): ServicePart[] {
  const { clock, logger, metrics } = host;
  const nats = NatsClient.create({
    url: settings.NATS_URL,
    name: 'openapi-executor',
    clock,
    metrics,
    ...(settings.NATS_USER ? { user: settings.NATS_USER } : {}),
    ...(settings.NATS_PASSWORD ? { password: settings.NATS_PASSWORD } : {}),
    ...(settings.NATS_TLS_CA ? { tlsCa: settings.NATS_TLS_CA } : {}),
  });
  const egress = egressOf(settings, host);
  const journal = journalConnection(settings.REDIS_URL, settings.REDIS_PASSWORD);
  const breakers = new BreakerMap(
    { consecutiveFailures: settings.OPENAPI_CB_FAILURES, recoveryMs: settings.OPENAPI_CB_RECOVERY_SECONDS * 1_000 },
    clock,
    ({ key, state, openUntilAt }) => {
      metrics.breakerState.set({ base_url: key }, BREAKER_GAUGE[state]);
      logger.warn({ base_url: key, state }, 'a breaker changed its state');
      if (state === 'open' && nats.connected) {
        nats.publish(SUBJECTS.breakerChanged, { key, state, open_until_at: openUntilAt });
      }
    },
  );
  const secrets = {
    expander: new VariableExpander(openapiExecutorConfig.ownKeys),
    ...(settings.REGISTRY_SECRET_KEY ? { box: new SecretBox(settings.REGISTRY_SECRET_KEY) } : {}),
  };
  const executor = new OpenApiExecutor(
    {
      egress,
      credentials: new Credentials(secrets, new OAuthTokens(egress, clock)),
      gate: new JournalGate(new RedisJournal(journal.redis, clock)),
      clock,
      ...(settings.OPENAPI_LOG_REQUESTS ? { onRequest: logRequest(logger) } : {}),
    },
    breakers,
    new VendorAdapters(logger, settings.OPENAPI_ADAPTERS_DIR),
    (baseUrl) => metrics.breakerFailures.inc({ base_url: baseUrl }),
  );
  const connections: ServicePart = {
    name: 'connections',
    stop: async () => {
      breakers.dispose();
      await egress.close();
    },
  };
  return [journal.part, nats.asPart(), connections, natsDoor(executor, nats, settings, host)];
}

function egressOf(settings: OpenApiExecutorConfig, host: ServiceHost): EgressClient {
  if (settings.OPENAPI_ALLOWED_DOMAINS.includes('*')) {
    host.logger.warn('OPENAPI_ALLOWED_DOMAINS=* lets tools reach every public host');
  }
  return new EgressClient({
    allowlist: settings.OPENAPI_ALLOWED_DOMAINS,
    allowAnyHost: settings.EGRESS_ALLOW_ANY_HOST,
    allowedEndpoints: settings.EGRESS_ALLOWED_ENDPOINTS,
    deniedCidrs: settings.EGRESS_DENIED_CIDRS,
    clock: host.clock,
    onBlocked: (layer, reason) => host.metrics.egressBlocked.inc({ layer, reason }),
    userAgent: `toolfleet/${VERSION}`,
  });
}

/** Nest over NATS. It starts last and drains first, so that every answer is still sent. */
function natsDoor(
  executor: OpenApiExecutor,
  nats: NatsClient,
  settings: OpenApiExecutorConfig,
  host: ServiceHost,
): ServicePart {
  const strategy = new NatsStrategy({
    connection: nats,
    queue: 'openapi-executor',
    concurrency: settings.OPENAPI_CONCURRENCY,
    clock: host.clock,
    onFault: (error, subject) => host.logger.error({ error, subject }, 'an endpoint failed'),
  });
  let app: INestMicroservice | undefined;
  return {
    name: 'nats doors',
    start: async () => {
      app ??= await NestFactory.createMicroservice(OpenApiExecutorModule.of(executor), {
        strategy,
        logger: false,
        abortOnError: false,
      });
      await app.listen();
    },
    ready: () => app !== undefined,
    drain: () => strategy.drain(),
    stop: async () => app?.close(),
  };
}
