import { QUEUES } from '@toolfleet/contracts/subjects';
import { JobWorker } from '@toolfleet/queue';
import { callWorker, type AsyncCallJob } from '@toolfleet/results';
import type { LifecycleComponent, ServiceHost } from '@toolfleet/service';
import { BatchedCalls, ToolCalls } from '../calls/tool-calls.js';
import type { GatewayConfig } from '../gateway.config.js';
import type { Brokers } from './brokers.js';
import type { Auth } from './wire-auth.js';
import type { GatewayCatalog } from './wire-catalog.js';
import type { Engine } from './wire-engine.js';
import type { Results } from './wire-results.js';

/** A call runs in other processes, so it does not end the gateways that are lost. */
const MAX_LOST_GATEWAYS = 10;
/** Largest result of a call in the shape of a model provider: such an answer holds the text of a result, which is never longer. */
const MODEL_BYTES = 6_000;

/** What runs the requests of callers. */
export type Calls = ReturnType<typeof wireCalls>;

interface CallsDeps {
  brokers: Brokers;
  auth: Auth;
  catalog: GatewayCatalog;
  engine: Engine;
  results: Results;
}

/** Runs a call request or a batch, or accepts it for later; and the worker of accepted calls. */
export function wireCalls(
  settings: GatewayConfig,
  { clock, logger, metrics, draining }: ServiceHost,
  { brokers, auth, catalog, engine, results }: CallsDeps,
) {
  const { queues, blocking, time } = brokers;
  const { executeCall } = engine;
  const { queue, store, generation, journal, asyncCalls } = results;
  const worker = new JobWorker<AsyncCallJob, unknown>({
    queue: QUEUES.toolCalls,
    redis: blocking,
    publisher: queues,
    time,
    clock,
    metrics,
    concurrency: settings.GATEWAY_ASYNC_CONCURRENCY,
    shareOf: (job) => job.tenant_id,
    startsTrace: true,
    maxLost: MAX_LOST_GATEWAYS,
    draining,
    handler: callWorker({
      executeCall,
      store,
      status: auth.status,
      journal,
      generation,
      isIdempotent: async (name, tenantId) => (await catalog.definitions.get(name, tenantId))?.idempotent === true,
      clock,
      publish: results.publish,
      parked: results.parked,
    }),
    onFault: (error, jobId) => logger.error({ error, job_id: jobId }, 'an asynchronous call failed unexpectedly'),
  });
  return {
    asyncCalls,
    results: results.reader,
    decisions: results.decisions,
    toolCalls: new ToolCalls(executeCall, asyncCalls, catalog.toolsets, clock),
    batches: new BatchedCalls(executeCall, settings.TOOL_PARALLELISM, clock, auth.limits, MODEL_BYTES),
    queue,
    components: [worker, results.lost.rounds, ...(results.wakes ? [results.wakes] : [])] satisfies LifecycleComponent[],
  };
}
