import { EgressClient } from '@toolfleet/egress';
import { JournalGuard, RedisJournal } from '@toolfleet/journal';
import { connectRedis, redisOptionsOf, redisPart } from '@toolfleet/queue/redis';
import {
  microservicePart,
  SecretBox,
  VariableExpander,
  VERSION,
  type ServiceHost,
  type LifecycleComponent,
} from '@toolfleet/service';
import { inUpstreamSpan } from '@toolfleet/telemetry';
import { NatsClient, natsOptionsOf, NatsStrategy, SharedBreakers, Heartbeat } from '@toolfleet/transport';
import { Credentials } from './credentials.js';
import { logRequest } from './log-request.js';
import { OAuthTokens } from './oauth-tokens.js';
import { OpenApiExecutor } from './openapi-executor.js';
import { openapiExecutorConfig, type OpenApiExecutorConfig } from './openapi-executor.config.js';
import { OpenApiExecutorModule } from './openapi-executor.module.js';
import { VendorAdapters } from './vendor-adapters/find-adapter.js';

const BREAKER_GAUGE = { closed: 0, half_open: 1, open: 2 } as const;

/** The parts of openapi-executor, in the order they start. */
export function buildParts(settings: OpenApiExecutorConfig, host: ServiceHost): LifecycleComponent[] {
  const { clock, logger, metrics } = host;
  const nats = NatsClient.create({ ...natsOptionsOf(settings), name: 'openapi-executor', clock, metrics });
  const egress = egressOf(settings, host);
  // While Redis is away calls that need the journal are refused at once, and their gateway sends them again within the
  // deadline; every script of the journal may run twice.
  const redis = connectRedis(settings.REDIS_URL, {
    name: 'openapi-executor',
    ...redisOptionsOf(settings),
    resend: true,
    log: logger,
  });
  const shared = new SharedBreakers({
    scope: 'openapi-executor',
    rule: {
      consecutiveFailures: settings.OPENAPI_CB_FAILURES,
      recoveryMs: settings.OPENAPI_CB_RECOVERY_SECONDS * 1_000,
    },
    clock,
    nats,
    onTransition: ({ key, tenantId, state }) => {
      metrics.breakerState.set({ base_url: key }, BREAKER_GAUGE[shared.map.stateOf(key)]);
      logger.warn({ base_url: key, tenant_id: tenantId, state }, 'a breaker changed its state');
    },
  });
  const secrets = {
    expander: new VariableExpander(openapiExecutorConfig.ownKeys),
    ...(settings.REGISTRY_SECRET_KEY ? { box: new SecretBox(settings.REGISTRY_SECRET_KEY) } : {}),
  };
  const gate = new JournalGuard(new RedisJournal(redis, clock), clock);
  const executor = new OpenApiExecutor(
    {
      egress,
      credentials: new Credentials(secrets, new OAuthTokens(egress, clock)),
      gate,
      clock,
      ...(settings.OPENAPI_LOG_REQUESTS ? { onRequest: logRequest(logger) } : {}),
    },
    shared.map,
    new VendorAdapters(logger, settings.OPENAPI_ADAPTERS_DIR),
    (baseUrl) => metrics.breakerFailures.inc({ base_url: baseUrl }),
  );
  const connections: LifecycleComponent = {
    name: 'connections',
    drain: () => gate.drain(),
    stop: async () => {
      await egress.close();
    },
  };
  return [
    redisPart(redis, settings.REDIS_URL, 'journal'),
    nats.asPart(),
    shared.asPart(),
    connections,
    ...natsDoor(executor, nats, settings, shared, host),
  ];
}

function egressOf(settings: OpenApiExecutorConfig, host: ServiceHost): EgressClient {
  if (settings.OPENAPI_ALLOWED_DOMAINS.includes('*')) {
    host.logger.warn('OPENAPI_ALLOWED_DOMAINS=* lets tools reach every public host');
  }
  return new EgressClient({
    trace: inUpstreamSpan,
    allowlist: settings.OPENAPI_ALLOWED_DOMAINS,
    allowAnyHost: settings.EGRESS_ALLOW_ANY_HOST,
    allowedEndpoints: settings.EGRESS_ALLOWED_ENDPOINTS,
    deniedCidrs: settings.EGRESS_DENIED_CIDRS,
    clock: host.clock,
    onBlocked: (layer, reason) => host.metrics.egressBlocked.inc({ layer, reason }),
    userAgent: `toolfleet/${VERSION}`,
  });
}

/** The endpoints over NATS. */
function natsDoor(
  executor: OpenApiExecutor,
  nats: NatsClient,
  settings: OpenApiExecutorConfig,
  breakers: SharedBreakers,
  { clock, logger }: ServiceHost,
): LifecycleComponent[] {
  const strategy = new NatsStrategy({
    connection: nats,
    queue: 'openapi-executor',
    concurrency: settings.OPENAPI_CONCURRENCY,
    clock,
    onFault: (error, subject) => logger.error({ error, subject }, 'an endpoint failed'),
    onStall: (stalledMs) =>
      logger.warn({ stalled_ms: stalledMs }, 'the event loop was held; calls that waited are refused'),
  });
  const beacon = new Heartbeat(nats, clock, {
    service: 'openapi-executor',
    slots: () => ({ busy: strategy.inFlight, total: strategy.capacity }),
    breakers: () => breakers.status(),
  });
  return [
    microservicePart({ name: 'nats doors', module: OpenApiExecutorModule.of(executor), strategy, logger }),
    beacon,
  ];
}
