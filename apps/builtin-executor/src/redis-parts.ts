import type { ToolRunner } from '@toolfleet/builtin-tools';
import type { ExecJob, ExecResponse } from '@toolfleet/contracts/execution';
import { QUEUES } from '@toolfleet/contracts/subjects';
import { JournalGuard, RedisJournal, type ExecutionGuard } from '@toolfleet/journal';
import { connectRedis, JobWorker, redisOptionsOf, redisPart, RedisTime } from '@toolfleet/queue';
import type { ServiceHost, LifecycleComponent } from '@toolfleet/service';
import { agentWorker } from './agent.worker.js';
import type { BuiltinExecutorConfig } from './builtin-executor.config.js';

/** What this process has in Redis. */
export interface RedisParts {
  gate: ExecutionGuard;
  /** Connections and their clock; start before everything that claims. */
  connections: LifecycleComponent[];
  /** Worker of queue `agent-runs`; start it last. */
  agentWorker(toolbox: ToolRunner): LifecycleComponent;
}

/** The journal and the agent queue on one server. */
export function redisParts(
  redisUrl: string,
  settings: BuiltinExecutorConfig,
  { clock, logger, metrics }: ServiceHost,
): RedisParts {
  const connect = (role: 'commands' | 'blocking') =>
    connectRedis(redisUrl, { name: 'builtin-executor', ...redisOptionsOf(settings), role, log: logger });
  const commands = connect('commands');
  const gate = new JournalGuard(new RedisJournal(commands, clock), clock);
  return {
    gate,
    connections: [redisPart(commands, redisUrl), { name: 'outcomes', drain: () => gate.drain() }],
    agentWorker(toolbox) {
      const blocking = connect('blocking');
      const time = new RedisTime(commands, clock);
      const worker = new JobWorker<ExecJob, ExecResponse>({
        queue: QUEUES.agentRuns,
        redis: blocking,
        publisher: commands,
        time,
        concurrency: settings.AGENT_CONCURRENCY,
        handler: agentWorker(toolbox, gate, clock),
        clock,
        metrics,
        onFault: (error, jobId) => logger.error({ error, job_id: jobId }, 'a job failed'),
      });
      const connection = redisPart(blocking, redisUrl, 'redis of the queue');
      return {
        name: worker.name,
        async start() {
          await connection.start();
          await time.start();
          await worker.start();
        },
        ready: () => worker.ready(),
        drain: () => worker.drain(),
        async stop() {
          await worker.stop();
          time.stop();
          await connection.stop();
        },
      };
    },
  };
}
