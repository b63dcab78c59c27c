import { SUBJECTS } from '@toolfleet/contracts/subjects';
import { EgressClient } from '@toolfleet/egress';
import { JournalGuard, RedisJournal, type ExecutionGuard } from '@toolfleet/journal';
import { connectRedis, redisOptionsOf, redisPart } from '@toolfleet/queue/redis';
import { microservicePart, VERSION, type ServiceHost, type LifecycleComponent } from '@toolfleet/service';
import { inUpstreamSpan } from '@toolfleet/telemetry';
import { NatsClient, natsOptionsOf, NatsStrategy, SharedBreakers, Heartbeat } from '@toolfleet/transport';
import { McpExecutor } from './mcp-executor.js';
import type { McpExecutorConfig } from './mcp-executor.config.js';
import { McpExecutorModule } from './mcp-executor.module.js';
import { secretOpener } from './open-secret.js';
import { POOL_LIMITS, SessionPool } from './session-pool.js';

const BREAKER_GAUGE = { closed: 0, half_open: 1, open: 2 } as const;

/** The parts of mcp-executor, in the order they start. */
export function buildParts(settings: McpExecutorConfig, host: ServiceHost): LifecycleComponent[] {
  const { clock, logger, metrics } = host;
  const nats = NatsClient.create({ ...natsOptionsOf(settings), name: 'mcp-executor', clock, metrics });
  // While Redis is away calls that need the journal are refused at once; every script of the journal may run twice.
  const redis = connectRedis(settings.REDIS_URL, {
    name: 'mcp-executor',
    ...redisOptionsOf(settings),
    resend: true,
    log: logger,
  });
  const gate = new JournalGuard(new RedisJournal(redis, clock), clock);
  const egress = egressOf(settings, host);
  const expand = secretOpener(settings.REGISTRY_SECRET_KEY);
  const maxResponseBytes = settings.MCP_MAX_RESPONSE_BYTES;
  const pool = new SessionPool(
    { egress, clock, expand, maxResponseBytes, allowStdio: settings.TOOLFLEET_LOCAL, version: VERSION },
    (server) => {
      if (nats.connected) nats.publish(SUBJECTS.execMcpChanged, { server });
    },
    { ...POOL_LIMITS, idleCloseMs: settings.MCP_SESSION_IDLE_SECONDS * 1_000 },
  );
  const shared = new SharedBreakers({
    scope: 'mcp-executor',
    rule: { consecutiveFailures: settings.MCP_CB_FAILURES, recoveryMs: settings.MCP_CB_RECOVERY_SECONDS * 1_000 },
    clock,
    nats,
    onTransition: ({ key, tenantId, state }) => {
      metrics.breakerState.set({ base_url: key }, BREAKER_GAUGE[shared.map.stateOf(key)]);
      logger.warn({ base_url: key, tenant_id: tenantId, state }, 'a breaker changed its state');
    },
  });
  const executor = new McpExecutor(pool, shared.map, { egress, expand, maxResponseBytes }, clock, {
    defaultIdleMs: settings.MCP_TIMEOUT_SECONDS * 1_000,
    maxResponseBytes,
    onTargetFault: (baseUrl) => metrics.breakerFailures.inc({ base_url: baseUrl }),
  });
  const sessions: LifecycleComponent = {
    name: 'sessions',
    drain: () => gate.drain(),
    stop: async () => {
      await pool.close();
      await egress.close();
    },
  };
  return [
    nats.asPart(),
    redisPart(redis, settings.REDIS_URL),
    shared.asPart(),
    sessions,
    ...natsDoor(executor, gate, nats, settings, shared, host),
  ];
}

function egressOf(settings: McpExecutorConfig, host: ServiceHost): EgressClient {
  if (settings.MCP_ALLOWED_DOMAINS.includes('*'))
    host.logger.warn('MCP_ALLOWED_DOMAINS=* lets tools reach every public host');
  return new EgressClient({
    trace: inUpstreamSpan,
    allowlist: settings.MCP_ALLOWED_DOMAINS,
    allowAnyHost: settings.EGRESS_ALLOW_ANY_HOST,
    allowedEndpoints: settings.EGRESS_ALLOWED_ENDPOINTS,
    deniedCidrs: settings.EGRESS_DENIED_CIDRS,
    clock: host.clock,
    limits: { maxBytes: settings.MCP_MAX_RESPONSE_BYTES },
    onBlocked: (layer, reason) => host.metrics.egressBlocked.inc({ layer, reason }),
    userAgent: `toolfleet/${VERSION}`,
  });
}

/** The endpoints over NATS. */
function natsDoor(
  executor: McpExecutor,
  gate: ExecutionGuard,
  nats: NatsClient,
  settings: McpExecutorConfig,
  breakers: SharedBreakers,
  { clock, logger }: ServiceHost,
): LifecycleComponent[] {
  const strategy = new NatsStrategy({
    connection: nats,
    queue: 'mcp-executor',
    concurrency: settings.MCP_CONCURRENCY,
    clock,
    onFault: (error, subject) => logger.error({ error, subject }, 'an endpoint failed'),
    onStall: (stalledMs) =>
      logger.warn({ stalled_ms: stalledMs }, 'the event loop was held; calls that waited are refused'),
  });
  const beacon = new Heartbeat(nats, clock, {
    service: 'mcp-executor',
    slots: () => ({ busy: strategy.inFlight, total: strategy.capacity }),
    breakers: () => breakers.status(),
  });
  return [
    microservicePart({ name: 'nats doors', module: McpExecutorModule.of(executor, gate), strategy, logger }),
    beacon,
  ];
}
