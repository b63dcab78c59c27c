import type { ExecResponse, NewExecJob } from '@toolfleet/contracts/execution';
import { QUEUES } from '@toolfleet/contracts/subjects';
import {
  ArgumentPool,
  LeasedBudget,
  NatsUserGrants,
  configuredInterceptors,
  policyComponent,
  BudgetClient,
  CallSpans,
  Audits,
  CallLog,
  CallMetrics,
  limiterFallback,
  executorTable,
  followsTask,
  pythonPolicy,
  QueueExecutor,
  RemoteExecutor,
  redisProbeLease,
  RedisRateLimiter,
  RedisResultCache,
  ToolLabels,
} from '@toolfleet/engine-adapters';
import { makeExecuteCall, MemorySessionResults, type Call } from '@toolfleet/engine';
import type { FleetFile } from '@toolfleet/fleet-file';
import { JobQueue, ReplyChannel } from '@toolfleet/queue';
import type { LifecycleComponent, ServiceHost } from '@toolfleet/service';
import { traceHeaders } from '@toolfleet/telemetry';
import { EventReporter, SharedBreakers, subjectClass } from '@toolfleet/transport';
import { type ConnectLinks, delegationIssuer, grantIssuer } from '@toolfleet/access';
import { FINISHED_JOB_SECONDS, queueOptions, type Brokers } from './brokers.js';
import { RegistryResolver } from '@toolfleet/catalog';
import type { GatewayConfig } from '../gateway.config.js';
import { CallBodies, CallRecorder, CallRecords } from '@toolfleet/records';
import { ResultExecutor } from '@toolfleet/results';
import { ProgramExecutor, type ProgramPorts } from '@toolfleet/programs';
import { engineSettings, toolBreakerRule } from './engine-settings.js';
import type { Auth } from './wire-auth.js';
import type { GatewayCatalog } from './wire-catalog.js';
import type { Results } from './wire-results.js';

/** Programs of a tenant that wait or run on a gateway with a caller that waits: a tenth of the runs that a small fleet has in a minute. */
const PROGRAMS_PER_TENANT = 32;

/** What runs every call: `executeCall`, and the adapters of its ports that others use as well. */
export type Engine = ReturnType<typeof wireEngine>;

interface EngineDeps {
  brokers: Brokers;
  auth: Auth;
  catalog: GatewayCatalog;
  results: Results;
  file: FleetFile;
  /** To the page where users connect accounts. */
  links: ConnectLinks;
  /** Number of live gateways, this one included. */
  gateways: () => number;
}

/** Joins the engine's ports (libs/engine) with their adapters, in the order in which a call meets them. */
export function wireEngine(settings: GatewayConfig, host: ServiceHost, deps: EngineDeps) {
  const { clock, logger, metrics } = host;
  const { catalog } = deps;
  const { redis, nats } = deps.brokers;
  const { kept, largeResults, journal, shelf, selector } = deps.results;
  const executors = wireExecutors(settings, host, deps);
  const policy = policyComponent(settings, host);
  const interceptors = configuredInterceptors(deps.file.interceptors, settings.EGRESS_ALLOWED_ENDPOINTS, host);
  const toolLabels = new ToolLabels(settings.METRICS_TOOL_LABEL);
  const callMetrics = new CallMetrics(metrics, toolLabels);
  const reporter = new EventReporter({ service: 'gateway', nats, clock, logger });
  const breakers = new SharedBreakers({
    scope: 'gateway',
    rule: toolBreakerRule(settings),
    clock,
    nats,
    mayProbe: redisProbeLease(redis, clock),
    report: (event) => reporter.report(event),
    onTransition: ({ key, worst }) => callMetrics.breakerChanged(key, worst),
  });
  const budgetClient = wireBudget(host, deps.brokers);
  const budget = new LeasedBudget(budgetClient, clock);
  const rateLimiter = new RedisRateLimiter(redis, clock, {
    gateways: deps.gateways,
    onLocalDecision: limiterFallback(metrics, clock),
  });
  const callRecords = settings.GATEWAY_CALL_SPOOL > 0 ? new CallRecords(nats) : undefined;
  // On a developer's machine nothing is to be hidden from the developer.
  const bodies = new CallBodies({ keep: settings.TOOLFLEET_LOCAL ? 'all' : 'off', ...deps.file.call_bodies });
  const recorder =
    callRecords &&
    new CallRecorder({
      records: callRecords,
      clock,
      maxSpooled: settings.GATEWAY_CALL_SPOOL,
      onDropped: (calls) => metrics.callsUnrecorded.inc(calls),
      bodies: bodies.isOn ? bodies : undefined,
      onBodyDropped: () => metrics.bodiesUnrecorded.inc(),
    });
  if (recorder) metrics.onScrape(() => metrics.callSpoolAge.set(recorder.oldestMs / 1_000));
  const grants = new NatsUserGrants({
    nats,
    clock,
    isOn: settings.GATEWAY_IDENTITY,
    linkTo: (user, source) => deps.links.make(user, source),
  });
  const callLog = new CallLog(logger, settings.GATEWAY_LOG_SAMPLE_RATIO);
  const engine = engineSettings(settings);
  const costlyArguments = new ArgumentPool(clock);
  const executeCall = makeExecuteCall({
    catalog: new RegistryResolver(catalog.definitions, catalog.toolsets, catalog.list),
    policy: policy.policy,
    approvals: deps.results.parked,
    interceptors: interceptors.interceptors,
    cache: new RedisResultCache(redis, clock, { results: kept }),
    rateLimiter,
    budget,
    journal,
    executorFor: executors.executorFor,
    breakers: breakers.map,
    audit: recorder ? new Audits([callLog, recorder]) : callLog,
    tracer: new CallSpans(settings.OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT),
    meter: callMetrics,
    sessionResults: new MemorySessionResults(clock),
    costlyArguments,
    selector,
    shelf,
    grants,
    clock,
    settings: engine,
  });
  const components: LifecycleComponent[] = [
    policy.component,
    interceptors.component,
    reporter,
    breakers.asComponent(),
    { name: 'grants of users', start: async () => void (settings.GATEWAY_IDENTITY && grants.follow()) },
    executors.replies,
    ...(largeResults ? [largeResults] : []),
    costlyArguments,
    selector,
    { name: 'records of calls', drain: async () => recorder?.drain(settings.DRAIN_TIMEOUT_MS / 2) },
    {
      name: 'settlements',
      drain: () => {
        budget.endLeases();
        return budgetClient.drain(settings.DRAIN_TIMEOUT_MS);
      },
    },
  ];
  return {
    executeCall,
    settings: engine,
    breakers,
    budget,
    rateLimiter,
    grants,
    /** Undefined when no calls are recorded. */
    callRecords,
    recorder,
    callLog,
    toolLabels,
    queues: executors.queues,
    components,
  };
}

/** Where tools run: executors behind NATS subjects, and the queues of Python and of agents. */
function wireExecutors(
  settings: GatewayConfig,
  host: ServiceHost,
  { brokers, auth, catalog, results, file }: EngineDeps,
) {
  const { clock, metrics } = host;
  const replies = new ReplyChannel({
    redis: brokers.blocking,
    queues: [QUEUES.pythonRuns, QUEUES.programRuns, QUEUES.agentRuns],
    clock,
  });
  const { definitions, featureDefinitions, list, search } = catalog;
  const issueToken = delegationIssuer(auth.tokens, clock);
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
  const raiseFence = async ({ callId, entry, request, deadline }: Call) => {
    // The effect is the task itself; to follow it has none.
    if (followsTask(request)) await results.journal.awaitInput(callId, deadline.remainingMs());
    const bumped = await results.journal.bump(callId, entry);
    return 'fence' in bumped ? bumped.fence : undefined;
  };
  const python = pythonPolicy(file.code_execution);
  const queueDeps = { clock, issueToken, credentials: auth.watch, traceHeaders, python };
  const ports: ProgramPorts = {
    clock,
    shelf: results.shelf,
    approvals: results.parked,
    authenticate: async (token) => {
      const principal = await auth.authenticate({ kind: 'bearer', token });
      await auth.limits.count(principal);
      return principal;
    },
    search: (...wanted) => search.rank(...wanted),
    describe: (principal, name) => list.one(principal, name),
  };
  const listAll = async (tenantId: string) =>
    (await Promise.all([definitions.list(tenantId), featureDefinitions.list(tenantId)])).map(({ tools }) => tools);
  const executorFor = executorTable({
    remote: (subject) => {
      // rate() sees no increase in a series that starts above 0.
      metrics.natsNoResponders.inc({ subject_class: subjectClass(subject) }, 0);
      return new RemoteExecutor(
        brokers.nats,
        subject,
        raiseFence,
        issueToken,
        grantIssuer(auth.tokens, clock),
        listAll,
      );
    },
    queue: (name) => new QueueExecutor(queues[name]!, replies, queueDeps),
    programs: (name) =>
      new ProgramExecutor(queues[name]!, replies, { ...queueDeps, ports, maxPerTenant: PROGRAMS_PER_TENANT }),
    results: () => new ResultExecutor(results.reader),
  });
  return { executorFor, replies, queues: Object.values(queues) };
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
