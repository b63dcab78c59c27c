import type { ExecResponse } from '@toolfleet/contracts/execution';
import { QUEUES } from '@toolfleet/contracts/subjects';
import { LeasedBudget, makeExecuteCall, MemorySessionResults, type ExecuteCall } from '@toolfleet/engine';
import { DEFAULT_RETENTION, RedisJournal } from '@toolfleet/journal';
import { JobQueue, ReplyChannel } from '@toolfleet/queue';
import { loadFleetFile, type LifecycleComponent, type ServiceHost } from '@toolfleet/service';
import { traceHeaders } from '@toolfleet/telemetry';
import { SharedBreakers, subjectClass } from '@toolfleet/transport';
import type { SignedTokens } from '../auth/signed-tokens.js';
import { FINISHED_JOB_SECONDS, queueOptions, type Brokers } from '../brokers.js';
import type { DefinitionCache } from '../catalog/definition-cache.js';
import { RegistryResolver } from '../catalog/registry-catalog.js';
import type { GatewayConfig } from '../gateway.config.js';
import { policyComponent } from '../policy/engine-policy.js';
import { RedisRecentCalls } from '../recent-calls/redis-recent-calls.js';
import { withPlainIds } from '../tool-calls.js';
import { resultStore } from '../results/result-store.js';
import { BudgetClient } from './budget-client.js';
import { CallRecorder } from './call-recorder.js';
import { Audits, CallLog, CallMetrics, CallSpans, limiterFallback } from './call-telemetry.js';
import {
  delegationIssuer,
  executorTable,
  ProgramExecutor,
  QueueExecutor,
  RemoteExecutor,
  type NewExecJob,
} from './executors.js';
import type { ProgramPorts } from './program-calls.js';
import { PythonModules } from './redis-python-modules.js';
import { RedisKeptResults } from './redis-kept-results.js';
import { redisProbeLease } from './redis-probe-lease.js';
import { RedisRateLimiter } from './redis-rate-limiter.js';
import { RedisResultCache } from './redis-result-cache.js';
import { engineSettings, readPythonPolicy, toolBreakerRule } from './settings.js';

/** What runs every call: `executeCall`, and the adapters of its ports that others use as well. */
export type Engine = ReturnType<typeof wireEngine>;

interface EngineDeps {
  brokers: Brokers;
  tokens: SignedTokens;
  definitions: DefinitionCache;
  /** What the calls of programs need besides the engine itself. */
  programs: Omit<ProgramPorts, 'clock' | 'executeCall'>;
}

/** Joins the engine's ports (libs/engine) with their adapters, in the order in which a call meets them. */
export function wireEngine(settings: GatewayConfig, host: ServiceHost, deps: EngineDeps) {
  const { clock, logger, metrics } = host;
  const { redis, nats } = deps.brokers;
  const largeResults = resultStore(settings, host);
  const results = new RedisKeptResults(redis, settings.RESULT_QUOTA_MB * 1024 * 1024, largeResults);
  const journal = new RedisJournal(redis, clock, DEFAULT_RETENTION, results, largeResults);
  const executors = wireExecutors(settings, host, deps, journal, (request) => engineCall(request));
  const policy = policyComponent(settings, host);
  const callMetrics = new CallMetrics(metrics, { by: settings.METRICS_TOOL_LABEL, max: settings.METRICS_MAX_TOOLS });
  const breakers: SharedBreakers = new SharedBreakers({
    scope: 'gateway',
    rule: toolBreakerRule(settings),
    clock,
    nats,
    mayProbe: redisProbeLease(redis, clock),
    onTransition: ({ key }) => callMetrics.breakerChanged(key, breakers.map.getState(key)),
  });
  const budgetClient = wireBudget(host, deps.brokers);
  const budget = new LeasedBudget(budgetClient, clock);
  const rateLimiter = new RedisRateLimiter(redis, clock, {
    replicas: settings.GATEWAY_REPLICAS,
    onLocalDecision: limiterFallback(metrics, clock),
  });
  const recentCalls =
    settings.GATEWAY_RECENT_CALLS > 0 ? new RedisRecentCalls(redis, settings.GATEWAY_RECENT_CALLS) : undefined;
  const recorder = recentCalls && new CallRecorder(recentCalls, clock);
  const callLog = new CallLog(logger, settings.GATEWAY_LOG_SAMPLE_RATIO);
  const engine = engineSettings(settings);
  const engineCall: ExecuteCall = makeExecuteCall({
    catalog: new RegistryResolver(deps.definitions),
    policy: policy.policy,
    cache: new RedisResultCache(redis, clock, { results }),
    rateLimiter,
    budget,
    journal,
    executorFor: executors.executorFor,
    breakers: breakers.map,
    audit: recorder ? new Audits([callLog, recorder]) : callLog,
    tracer: new CallSpans(),
    meter: callMetrics,
    sessionResults: new MemorySessionResults(clock),
    clock,
    settings: engine,
  });
  const components: LifecycleComponent[] = [
    policy.component,
    breakers.asComponent(),
    executors.replies,
    ...(largeResults ? [largeResults] : []),
    { name: 'recent calls', drain: async () => recorder?.flush() },
    {
      name: 'settlements',
      drain: () => {
        budget.endLeases();
        return budgetClient.drain(settings.DRAIN_TIMEOUT_MS);
      },
    },
  ];
  return {
    executeCall: withPlainIds(engineCall),
    settings: engine,
    results,
    /** Keeps large results outside Redis; undefined when none is configured. */
    largeResults,
    journal,
    breakers,
    budget,
    rateLimiter,
    /** Undefined when no recent calls are kept. */
    recentCalls,
    callLog,
    queues: executors.queues,
    pythonModules: executors.pythonModules,
    components,
  };
}

/** Where tools run: executors behind NATS subjects, and the queues of Python and of agents. */
function wireExecutors(
  settings: GatewayConfig,
  { clock, logger, metrics }: ServiceHost,
  { brokers, tokens, programs }: EngineDeps,
  journal: RedisJournal,
  executeCall: ExecuteCall,
) {
  const replies = new ReplyChannel({
    redis: brokers.blocking,
    queues: [QUEUES.pythonRuns, QUEUES.programRuns, QUEUES.agentRuns],
    clock,
  });
  const issueToken = delegationIssuer(tokens, clock);
  const newQueue = (name: string) =>
    new JobQueue<NewExecJob, ExecResponse>({
      name,
      ...queueOptions(settings, brokers),
      retentionSeconds: FINISHED_JOB_SECONDS,
      shareOf: (job) => job.tenant_id,
    });
  const queues: Record<string, JobQueue<NewExecJob, ExecResponse>> = {
    [QUEUES.pythonRuns]: newQueue(QUEUES.pythonRuns),
    [QUEUES.programRuns]: newQueue(QUEUES.programRuns),
    [QUEUES.agentRuns]: newQueue(QUEUES.agentRuns),
  };
  const raiseFence = async (callId: string) => {
    const bumped = await journal.bump(callId);
    return 'fence' in bumped ? bumped.fence : undefined;
  };
  const configured = readPythonPolicy(loadFleetFile(settings).code_execution);
  const pythonModules = new PythonModules(brokers.redis, configured, logger);
  const python = () => pythonModules.policy();
  const queueDeps = { clock, issueToken, traceHeaders, python, pythonMemoryMb: settings.WASI_MEMORY_LIMIT_MB };
  const executorFor = executorTable({
    remote: (subject) => {
      // rate() sees no increase in a series that starts above 0.
      metrics.natsNoResponders.inc({ subject_class: subjectClass(subject) }, 0);
      return new RemoteExecutor(brokers.nats, subject, raiseFence, issueToken);
    },
    queue: (name) => new QueueExecutor(queues[name]!, replies, queueDeps),
    programs: (name) =>
      new ProgramExecutor(queues[name]!, replies, { ...queueDeps, ports: { clock, executeCall, ...programs } }),
  });
  return { executorFor, replies, queues: Object.values(queues), pythonModules };
}

function wireBudget({ clock, logger, metrics }: ServiceHost, { nats }: Brokers): BudgetClient {
  return new BudgetClient(
    nats,
    clock,
    (message) => logger.warn(message),
    (refused) => {
      metrics.budgetSettlementRefused.inc(refused.length);
      for (const { call_id, field } of refused)
        logger.error({ call_id, field }, 'the settlement of a call was refused');
    },
  );
}
