export { JobQueue, type JobQueueOptions, type QueueCounts } from './job-queue.js';
export { RetryLater, type JobHandler, type JobProgress, type JobRun, type ReplyMessage } from './job-run.js';
export { JobWorker, type JobWorkerOptions } from './job-worker.js';
export { QueueMetrics } from './queue-metrics.js';
export { jobIdOf, type JobData, type JobRecord, type JobState } from './queues.js';
export {
  closeRedis,
  connectRedis,
  openRedis,
  redisPart,
  requireNoEviction,
  type RedisConnectOptions,
  type RedisLog,
  type RedisRole,
} from './redis-connection.js';
export { redisOptionsOf, type RedisSettings } from './redis-settings.js';
export { RedisTime } from './redis-time.js';
export { StoreGeneration } from './store-generation.js';
export type { WorkerSlots } from './worker-slots.js';
export { ReplyChannel, type ReplyChannelOptions, type SubmitOptions } from './reply-channel.js';
