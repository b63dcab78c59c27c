import { connectRedis, redisComponent, RedisTime, StoreWatch, toRedisOptions } from '@toolfleet/queue';
import type { LifecycleComponent, ServiceHost } from '@toolfleet/service';
import { connectNats } from '@toolfleet/service/nats';
import type { GatewayConfig } from '../gateway.config.js';

/** Connections of a gateway to NATS and Redis. They are opened when their components start, not here. */
export type Brokers = ReturnType<typeof connectBrokers>;

/**
 * Redis has three connections: `redis` for the many small commands of calls, `queues` for BullMQ, and `blocking` for commands that wait on
 * the server and would hold up all others.
 */
export function connectBrokers(settings: GatewayConfig, host: ServiceHost) {
  const { clock, logger, metrics } = host;
  const connect = (name: string, options: { role: 'commands' | 'blocking' }) =>
    connectRedis(settings.REDIS_URL, { name, ...toRedisOptions(settings), log: logger, ...options });
  const nats = connectNats(settings, host);
  const redis = connect('gateway', { role: 'commands' });
  const queues = connect('gateway-queues', { role: 'commands' });
  const blocking = connect('gateway-waiting', { role: 'blocking' });
  const time = new RedisTime(redis, clock, metrics);
  const connections: LifecycleComponent[] = [
    nats.asComponent(),
    redisComponent(redis, settings.REDIS_URL),
    redisComponent(queues, settings.REDIS_URL, 'redis for queues'),
    redisComponent(blocking, settings.REDIS_URL, 'redis for waiting'),
  ];
  return {
    nats,
    redis,
    queues,
    blocking,
    time,
    /** Connections without which the gateway cannot take calls. */
    connections,
    components: [
      ...connections,
      new StoreWatch(redis, settings.REDIS_URL, host),
      { name: 'time of redis', start: () => time.start(), stop: async () => time.stop() },
    ] satisfies LifecycleComponent[],
  };
}

/** How long the record of a finished job stays, with its data and reply. */
export const FINISHED_JOB_SECONDS = 60;

/**
 * Options all queues of a gateway share. A job that succeeded stays only for `FINISHED_JOB_SECONDS`: the waiting gateway has
 * the reply, or reads it at once, and the result is kept elsewhere.
 */
export function queueOptions(settings: GatewayConfig, { queues, time }: Pick<Brokers, 'queues' | 'time'>) {
  return {
    redis: queues,
    time,
    shards: settings.QUEUE_SHARDS,
    maxLength: settings.QUEUE_MAX_WAITING,
    retentionSeconds: settings.CALL_RESULT_TTL_SECONDS,
    completedSeconds: FINISHED_JOB_SECONDS,
  };
}
