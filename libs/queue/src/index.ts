export { JobQueue, type JobQueueOptions, type QueueCounts } from './job-queue.js';
export { JobWorker, type JobWorkerOptions } from './job-worker.js';
export { QueueMetrics } from './queue-metrics.js';
export {
  RetryLater,
  toJobId,
  type JobData,
  type JobHandler,
  type JobProgress,
  type JobRecord,
  type JobRun,
  type JobState,
  type ReplyMessage,
} from './jobs.js';
export {
  closeRedis,
  connectRedis,
  openRedis,
  redisComponent,
  requireNoEviction,
  StoreGeneration,
  toRedisOptions,
  type RedisConnectOptions,
  type RedisLog,
  type RedisRole,
  type RedisSettings,
} from './redis-connection.js';
export { RedisTime } from './redis-time.js';
export type { WorkerSlots } from './worker-slots.js';
export { ReplyChannel, type ReplyChannelOptions, type SubmitOptions } from './reply-channel.js';
