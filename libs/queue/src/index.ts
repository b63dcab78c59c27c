export { JobQueue } from './job-queue.js';
export { JobWorker } from './job-worker.js';
export { queueMetrics } from './queue-metrics.js';
export { RetryLater, toJobId, type JobData, type JobRun } from './jobs.js';
export {
  closeRedis,
  connectRedis,
  openRedis,
  redisComponent,
  StoreGeneration,
  toRedisOptions,
} from './redis-connection.js';
export { RedisTime } from './redis-time.js';
export { StoreWatch } from './store-epoch.js';
export { ReplyChannel } from './reply-channel.js';
export type { WorkerSlots } from './worker-slots.js';
