/** `@toolfleet/queue/redis`: connections without BullMQ, for services that have no queue. */
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
export { workersAliveMs } from './worker-slots.js';
