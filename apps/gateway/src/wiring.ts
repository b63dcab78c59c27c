import { isJsonObject, type JsonObject } from '@toolfleet/contracts';
import type { ExecResponse } from '@toolfleet/contracts/execution';
import { QUEUES } from '@toolfleet/contracts/subjects';
import { makeExecuteCall, MemoryHistoryStore } from '@toolfleet/engine';
import { DEFAULT_RETENTION, RedisJournal } from '@toolfleet/journal';
import {
  connectRedis,
  JobQueue,
  JobWorker,
  QueueMetrics,
  redisOptionsOf,
  RedisTime,
  redisPart,
  ReplyChannel,
  StoreGeneration,
} from '@toolfleet/queue';
import { validateMessage } from '@toolfleet/schema';
import { fleetFileOf, type ServiceHost, type LifecycleComponent } from '@toolfleet/service';
import { traceHeaders } from '@toolfleet/telemetry';
import { NatsClient, natsOptionsOf, NatsStrategy, SharedBreakers } from '@toolfleet/transport';
import { authParts } from './auth/auth-parts.js';
import { CredentialWatch } from './auth/credential-status.js';
import { RedisKeyStore } from './auth/redis-key-store.js';
import { RegisterAuth } from './auth/register-auth.js';
import { BudgetClient } from './engine/budget-client.js';
import { AsyncCalls, type AsyncCallJob } from './async/async-calls.js';
import { BatchCalls, withPlainIds, ToolCalls } from './tool-calls.js';
import { CallAccess } from './auth/call-access.js';
import { callWorker } from './async/call.worker.js';
import { RedisCallStore } from './async/redis-call-store.js';
import { SpendSlices } from './engine/spend-slices.js';
import { CatalogChanges, RegistryResolver, RegistrySource } from './catalog/registry-catalog.js';
import { DefinitionCache } from './catalog/definition-cache.js';
import { ToolList, ToolSearch } from './catalog/tool-list.js';
import { GatewayServer } from './gateway-server.js';
import { EventStreams } from './http/event-streams.js';
import { HttpCalls } from './http/http-call.js';
import { MountedConsole } from './http/console.js';
import { wireMcp } from './mcp/wiring.js';
import { NatsCalls } from './nats/nats-calls.js';
import { CallLog, CallMetrics, CallSpans, limiterFallback } from './engine/call-telemetry.js';
import { delegationIssuer, executorTable, QueueExecutor, RemoteExecutor, type NewExecJob } from './engine/executors.js';
import { redisProbeLease } from './engine/redis-probe-lease.js';
import { engineSettings, readPythonPolicy, toolBreakerRule } from './engine/settings.js';
import type { GatewayConfig } from './gateway.config.js';
import { GatewayModule } from './gateway.module.js';
import { policyPart } from './policy/engine-policy.js';
import { RedisRateLimiter } from './engine/redis-rate-limiter.js';
import { RedisResultCache } from './engine/redis-result-cache.js';
import { resultStore } from './results/result-store.js';
import { RedisKeptResults } from './engine/redis-kept-results.js';
import { batchCounter, requireAllowance, readTiers } from './auth/key-limits.js';
import { RedisKeyLimits } from './auth/redis-key-limits.js';
import { callAudit, operatorViews } from './fleet-state/operator-views.js';
import { RedisMemory } from './fleet-state/redis-memory.js';
import { RedisRecentCalls } from './recent-calls/redis-recent-calls.js';

/** How long the record of a finished job stays, with its data and reply. */
const FINISHED_JOB_SECONDS = 60;

/** Redis connections of a gateway: for the many small commands of calls, for queues, and one that may block. */
function redisConnections(settings: GatewayConfig, host: ServiceHost) {
  const connect = (name: string, options: { role: 'commands' | 'blocking'; autoPipelining?: boolean }) =>
    connectRedis(settings.REDIS_URL, { name, ...redisOptionsOf(settings), log: host.logger, ...options });
  return {
    redis: connect('gateway', { role: 'commands', autoPipelining: true }),
    queues: connect('gateway-queues', { role: 'commands' }),
    blocking: connect('gateway-waiting', { role: 'blocking' }),
  };
}

/** The wiring of the gateway, in call order: the only place where ports meet their adapters. */
export function wireGateway(settings: GatewayConfig, host: ServiceHost): LifecycleComponent[] {
  const { clock, logger, metrics } = host;
  const file = fleetFileOf(settings);
  const { redis, queues, blocking } = redisConnections(settings, host);
  const nats = NatsClient.create({ ...natsOptionsOf(settings), name: 'gateway', clock, metrics });
  const time = new RedisTime(redis, clock);
  const queueOptions = {
    redis: queues,
    time,
    maxLength: settings.QUEUE_MAX_WAITING,
    retentionSeconds: settings.CALL_RESULT_TTL_SECONDS,
    // The waiting gateway has the reply, or reads it here at once; the result is kept elsewhere.
    completedSeconds: FINISHED_JOB_SECONDS,
  };

  const { tokens, keys, authenticate, status, parts: signIn } = authParts(settings, host, new RedisKeyStore(redis));

  // Which tool, and where it runs.
  const cache = new DefinitionCache(new RegistrySource(nats), clock, settings.GATEWAY_CATALOG_TTL_MS);
  const access = new CallAccess(cache);
  const changes = new CatalogChanges();
  const list = new ToolList(cache);
  const large = resultStore(settings, host);
  const results = new RedisKeptResults(redis, settings.RESULT_QUOTA_MB * 1024 * 1024, large);
  const journal = new RedisJournal(redis, clock, DEFAULT_RETENTION, results, large);
  const replies = new ReplyChannel({ redis: blocking, queues: [QUEUES.pythonRuns, QUEUES.agentRuns], clock });
  const issueToken = delegationIssuer(tokens, clock);
  const execQueue = (name: string) =>
    new JobQueue<NewExecJob, ExecResponse>({
      name,
      ...queueOptions,
      retentionSeconds: FINISHED_JOB_SECONDS,
      shareOf: (job) => job.tenant_id,
    });
  const execQueues: Record<string, JobQueue<NewExecJob, ExecResponse>> = {
    [QUEUES.pythonRuns]: execQueue(QUEUES.pythonRuns),
    [QUEUES.agentRuns]: execQueue(QUEUES.agentRuns),
  };
  const raiseFence = async (callId: string) => {
    const bumped = await journal.bump(callId);
    return 'fence' in bumped ? bumped.fence : undefined;
  };
  const executorFor = executorTable({
    remote: (subject) => new RemoteExecutor(nats, subject, raiseFence, issueToken),
    queue: (name) =>
      new QueueExecutor(execQueues[name]!, replies, {
        clock,
        issueToken,
        traceHeaders,
        python: readPythonPolicy(file.code_execution),
      }),
  });

  // What happens on every call.
  const policy = policyPart(settings, host);
  const breakers = new SharedBreakers({
    scope: 'gateway',
    rule: toolBreakerRule(settings),
    clock,
    nats,
    mayProbe: redisProbeLease(redis, clock),
  });
  const budget = new BudgetClient(
    nats,
    clock,
    (message) => logger.warn(message),
    (refused) => {
      metrics.budgetSettlementRefused.inc(refused.length);
      for (const { call_id, field } of refused)
        logger.error({ call_id, field }, 'the settlement of a call was refused');
    },
  );
  const rateLimiter = new RedisRateLimiter(redis, clock, {
    replicas: settings.GATEWAY_REPLICAS,
    onLocalDecision: limiterFallback(metrics, clock),
  });
  const recentCalls =
    settings.GATEWAY_RECENT_CALLS > 0 ? new RedisRecentCalls(redis, settings.GATEWAY_RECENT_CALLS) : undefined;
  const callLog = new CallLog(logger);
  const recorded = callAudit(callLog, recentCalls, clock);
  const engine = engineSettings(settings);
  const executeCall = withPlainIds(
    makeExecuteCall({
      catalog: new RegistryResolver(cache),
      policy: policy.policy,
      cache: new RedisResultCache(redis, clock, { results }),
      rateLimiter,
      budget,
      journal,
      executorFor,
      breakers: breakers.map,
      audit: recorded.audit,
      tracer: new CallSpans(),
      meter: new CallMetrics(metrics),
      history: new MemoryHistoryStore(clock),
      clock,
      settings: engine,
    }),
  );

  // The doors.
  const callQueue = new JobQueue<AsyncCallJob, unknown>({
    name: QUEUES.toolCalls,
    ...queueOptions,
    shareOf: (job) => job.tenant_id,
  });
  const store = new RedisCallStore(redis, settings.CALL_RESULT_TTL_SECONDS, () => clock.now(), results, large);
  const generation = new StoreGeneration(redis);
  const asyncCalls = new AsyncCalls(
    callQueue,
    store,
    generation,
    journal,
    results,
    access,
    clock,
    settings.GATEWAY_ASYNC_TIMEOUT_MS,
  );
  const worker = new JobWorker<AsyncCallJob, unknown>({
    queue: QUEUES.toolCalls,
    redis: blocking,
    publisher: queues,
    time,
    clock,
    metrics,
    concurrency: settings.GATEWAY_ASYNC_CONCURRENCY,
    startsTrace: true,
    handler: callWorker({
      executeCall,
      store,
      status,
      journal,
      generation,
      isIdempotent: async (toolName, tenantId) => (await cache.get(toolName, tenantId))?.idempotent === true,
      clock,
      publish: (subject, body) =>
        nats.connected ? nats.publish(subject, body) : logger.warn({ subject }, 'result not published: NATS is away'),
    }),
    onFault: (error, jobId) => logger.error({ error, job_id: jobId }, 'an asynchronous call failed unexpectedly'),
  });
  const search = new ToolSearch(list);
  const calls = new ToolCalls(executeCall, asyncCalls, clock);
  const keyLimits = new RedisKeyLimits(redis, clock);
  const tiers = readTiers(sectionOf(file.rate_limits).tiers);
  const countCalls = batchCounter(keyLimits, tiers);
  const everyQueue = [...Object.values(execQueues), callQueue] as unknown as JobQueue[];
  const operators = operatorViews({
    nats,
    clock,
    cache,
    access,
    list,
    recentCalls,
    queues: everyQueue,
    breakers,
    rateLimiter,
    settings: engine,
  });
  const brokers: LifecycleComponent[] = [
    nats.asPart(),
    redisPart(redis, settings.REDIS_URL),
    redisPart(queues, settings.REDIS_URL, 'redis for queues'),
    redisPart(blocking, settings.REDIS_URL, 'redis for waiting'),
  ];
  const natsCalls = new NatsCalls(
    {
      authenticate,
      local: settings.TOOLFLEET_LOCAL,
      trustTenantSubjects: settings.GATEWAY_TRUST_TENANT_SUBJECTS || settings.TOOLFLEET_LOCAL,
    },
    clock,
    settings.GATEWAY_CALL_TIMEOUT_MS,
    (principal) => requireAllowance(keyLimits, tiers, principal),
  );
  const registerAuth = new RegisterAuth(authenticate, settings.MCP_REGISTER_TOKEN);
  const streamLimits = {
    maxStreams: settings.GATEWAY_MAX_STREAMS,
    maxStreamsPerTenant: settings.GATEWAY_MAX_STREAMS_PER_TENANT,
  };
  const streams = new EventStreams(streamLimits, new CredentialWatch(status, clock));
  metrics.onScrape(() => metrics.eventStreams.set({}, streams.open));
  const module = GatewayModule.with({
    clock,
    nats,
    authenticate,
    keys,
    keyLimits,
    tiers,
    list,
    search,
    calls,
    batches: new BatchCalls(executeCall, settings.TOOL_PARALLELISM, clock, countCalls),
    asyncCalls,
    access,
    registerAuth,
    streams,
    views: operators.views,
    local: settings.TOOLFLEET_LOCAL,
    httpCalls: new HttpCalls(clock, settings.GATEWAY_CALL_TIMEOUT_MS),
    natsCalls,
    spendSlices: new SpendSlices(budget, clock, engine.leaseGraceMs),
    readiness: {
      draining: host.draining,
      ready: async () =>
        (await Promise.all(brokers.map((part) => part.ready?.() ?? true))).every(Boolean) && !host.draining.aborted,
    },
  });
  const strategy = new NatsStrategy({
    connection: nats,
    queue: 'gateway',
    isDoor: true,
    admit: (context) => natsCalls.admit(context),
    // Who is refused when there are too many is the engine's decision: it looks at tenants.
    concurrency: settings.GATEWAY_MAX_CALLS,
    clock,
    compile: validateMessage,
    onFault: (error, subject) => logger.error({ error, subject }, 'a NATS endpoint failed'),
  });
  const mcp = wireMcp(settings, host, {
    authenticate,
    tokens,
    keyLimits,
    tiers,
    list,
    search,
    changes,
    executeCall,
    calls,
    asyncCalls,
    nats,
    streams,
    status,
    countCalls,
  });
  const address = {
    host: settings.GATEWAY_HOST,
    port: settings.GATEWAY_PORT,
    maxBodyBytes: settings.GATEWAY_MAX_BODY_BYTES,
    connections: {
      requestTimeoutMs: settings.GATEWAY_REQUEST_TIMEOUT_MS,
      maxConnections: settings.GATEWAY_MAX_CONNECTIONS,
      maxConnectionsPerAddress: settings.GATEWAY_MAX_CONNECTIONS_PER_ADDRESS,
    },
  };
  return [
    callLog.asPart(), // started first and stopped last
    ...brokers,
    { name: 'time of redis', start: () => time.start(), stop: async () => time.stop() },
    { name: 'catalog changes', start: async () => changes.follow(nats, cache) },
    policy.part,
    ...signIn,
    breakers.asPart(),
    replies,
    ...operators.parts,
    new QueueMetrics(everyQueue, metrics, clock),
    new RedisMemory(redis, metrics, clock),
    ...(large ? [large] : []),
    recorded.part,
    { name: 'settlements', drain: () => budget.drain(settings.DRAIN_TIMEOUT_MS) },
    worker,
    new GatewayServer(module, strategy, address, host, (request) => registerAuth.prove(request.rawHeaders), [
      mcp,
      new MountedConsole(settings.CONSOLE_DIR, logger),
    ]),
  ];
}

const sectionOf = (value: unknown): JsonObject => (isJsonObject(value) ? value : {});
