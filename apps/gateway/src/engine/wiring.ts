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
import { withToolsets, type Toolsets } from '../catalog/toolsets.js';
import type { GatewayConfig } from '../gateway.config.js';
import { policyComponent } from '../policy/engine-policy.js';
import { RedisRecentCalls } from '../recent-calls/redis-recent-calls.js';
import { withPlainIds } from '../tool-calls.js';
import { RedisCallStore } from '../async/redis-call-store.js';
import { ResultExecutor } from '../results/read-result.js';
import type { ResultReader } from '../results/result-reader.js';
import { CallResultShelf } from '../results/result-shelf.js';
import { resultStore } from '../results/result-store.js';
import { SelectPool } from '../results/select-pool.js';
import { BudgetClient } from './budget-client.js';
import { CallRecorder } from './call-recorder.js';
import { CallSpans } from './call-spans.js';
import { Audits, CallLog, CallMetrics, limiterFallback } from './call-telemetry.js';
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
import { ToolLabels } from './tool-labels.js';

/** What runs every call: `executeCall`, and the adapters of its ports that others use as well. */
export type Engine = ReturnType<typeof wireEngine>;

interface EngineDeps {
  brokers: Brokers;
  tokens: SignedTokens;
  definitions: DefinitionCache;
  toolsets: Toolsets;
  /** What the calls of programs need besides the engine itself. */
  programs: Omit<ProgramPorts, 'clock' | 'executeCall' | 'shelf'>;
  /** Reads kept results; built after the engine. */
  results: () => ResultReader;
}

/** Joins the engine's ports (libs/engine) with their adapters, in the order in which a call meets them. */
export function wireEngine(settings: GatewayConfig, host: ServiceHost, deps: EngineDeps) {
  const { clock, logger, metrics } = host;
  const { redis, nats } = deps.brokers;
  const largeResults = resultStore(settings, host);
  const results = new RedisKeptResults(redis, settings.RESULT_QUOTA_MB * 1024 * 1024, largeResults);
  const journal = new RedisJournal(redis, clock, DEFAULT_RETENTION, results, largeResults);
  const handleTtlSeconds = settings.RESULT_HANDLE_TTL_SECONDS;
  const records = new RedisCallStore(redis, handleTtlSeconds, () => clock.now(), results, largeResults);
  const shelf = new CallResultShelf(records, results, clock, handleTtlSeconds * 1_000);
  const executors = wireExecutors(settings, host, deps, journal, shelf, (request) => executeCall(request));
  const policy = policyComponent(settings, host);
  const toolLabels = new ToolLabels({ by: settings.METRICS_TOOL_LABEL, max: settings.METRICS_MAX_TOOLS });
  const callMetrics = new CallMetrics(metrics, toolLabels, settings.METRICS_OTEL_NAMES);
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
  const selector = new SelectPool(clock);
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
    tracer: new CallSpans(settings.OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT),
    meter: callMetrics,
    sessionResults: new MemorySessionResults(clock),
    selector,
    shelf,
    clock,
    settings: engine,
  });
  const executeCall = withToolsets(engineCall, deps.toolsets);
  const components: LifecycleComponent[] = [
    policy.component,
    breakers.asComponent(),
    executors.replies,
    ...(largeResults ? [largeResults] : []),
    selector,
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
    executeCall: withPlainIds(executeCall),
    settings: engine,
    selector,
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
    toolLabels,
    queues: executors.queues,
    pythonModules: executors.pythonModules,
    components,
  };
}

/** Where tools run: executors behind NATS subjects, and the queues of Python and of agents. */
function wireExecutors(
  settings: GatewayConfig,
  { clock, logger, metrics }: ServiceHost,
  { brokers, tokens, programs, results }: EngineDeps,
  journal: RedisJournal,
  shelf: CallResultShelf,
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
      new ProgramExecutor(queues[name]!, replies, { ...queueDeps, ports: { clock, executeCall, shelf, ...programs } }),
    results: () => new ResultExecutor(results),
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
