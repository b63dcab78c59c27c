/** `@toolfleet/queue/redis`: connections without BullMQ, for services that have no queue. */
export {
  closeRedis,
  connectRedis,
  openRedis,
  redisComponent,
  requireNoEviction,
  toRedisOptions,
  type RedisConnectOptions,
  type RedisLog,
  type RedisRole,
  type RedisSettings,
} from './redis-connection.js';
export { RedisTime } from './redis-time.js';
export { workersAliveMs } from './worker-slots.js';
