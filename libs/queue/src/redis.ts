/** `@toolfleet/queue/redis`: what stores in Redis need, without BullMQ, for services that have no queue. */
export { closeRedis, connectRedis, openRedis, redisComponent, toRedisOptions } from './redis-connection.js';
export { jobKeyPattern, MAX_SHARDS } from './shard-numbers.js';
export { RedisTime } from './redis-time.js';
export { workersAliveMs } from './worker-slots.js';
export { leaseSize, TokenLeases } from './token-lease.js';
export { orUnavailable, StoreHealth } from './store-health.js';
export { defineScript, type Script, type ScriptArguments } from './redis-scripts.js';
export { STORE_EPOCH_KEY, StoreWatch, type StoreEpoch } from './store-epoch.js';
