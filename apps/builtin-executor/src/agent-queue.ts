import type { ToolRunner } from '@toolfleet/builtin-tools';
import type { ExecJob, ExecResponse } from '@toolfleet/contracts/execution';
import { QUEUES } from '@toolfleet/contracts/subjects';
import type { ExecutionGuard } from '@toolfleet/journal';
import { connectRedis, JobWorker, toRedisOptions, redisComponent, RedisTime, type JobRun } from '@toolfleet/queue';
import type { Clock } from '@toolfleet/resilience';
import type { LifecycleComponent } from '@toolfleet/service';
import type { ExecutorDeps } from '@toolfleet/service/executor';
import type { BuiltinExecutorConfig } from './builtin-executor.config.js';

/** Subtracted from the deadline of a call, so that the response arrives before it. */
const REPLY_RESERVE_MS = 50;

/**
 * Runs one job of `agent-runs`. When a worker dies its job is delivered again, but the second claim is refused, so the tools that
 * an agent called are never called twice (the gateway ends the call as OUTCOME_UNKNOWN).
 */
export function agentJobHandler(
  runner: ToolRunner,
  guard: ExecutionGuard,
  clock: Clock,
): (run: JobRun<ExecJob>) => Promise<ExecResponse> {
  return async (run) => {
    const { data } = run;
    const leftMs = run.deadlineAt === undefined ? data.timeout_ms : run.deadlineAt - clock.now();
    const deadlineAt = clock.now() + Math.max(0, Math.min(data.timeout_ms, leftMs) - REPLY_RESERVE_MS);
    const response = await guard.run(data, async (begin) => {
      await begin();
      return runner.run(data, { signal: run.signal, deadlineAt, progress: (progress) => run.progress(progress) });
    });
    return { ...response, queue_ms: run.queuedMs };
  };
}

/** The components of the queue `agent-runs`: the worker has its own connection for blocking reads. Start them last. */
export function agentQueue(
  runner: ToolRunner,
  settings: BuiltinExecutorConfig,
  { host, redis }: ExecutorDeps,
): LifecycleComponent[] {
  const { clock, logger, metrics, service } = host;
  if (!redis || settings.REDIS_URL === undefined) throw new Error('REDIS_URL is required by toolset agent');
  const url = settings.REDIS_URL;
  const blocking = connectRedis(url, { name: service, ...toRedisOptions(settings), role: 'blocking', log: logger });
  const time = new RedisTime(redis.client, clock, metrics);
  const worker = new JobWorker<ExecJob, ExecResponse>({
    queue: QUEUES.agentRuns,
    redis: blocking,
    publisher: redis.client,
    time,
    concurrency: settings.AGENT_CONCURRENCY,
    shareOf: (job) => job.tenant_id,
    handler: agentJobHandler(runner, redis.guard, clock),
    clock,
    metrics,
    draining: host.draining,
    onFault: (error, jobId) => logger.error({ error, job_id: jobId }, 'a job failed'),
  });
  const timeComponent = { name: 'redis time', start: () => time.start(), stop: async () => time.stop() };
  return [redisComponent(blocking, url, 'redis of the queue'), timeComponent, worker];
}
