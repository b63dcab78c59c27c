import { closeRedis, connectRedis, openRedis, toRedisOptions, type JobQueue } from '@toolfleet/queue';
import type { ServiceHost } from '@toolfleet/service';
import type { ApiKeys } from '../auth/api-keys.js';
import type { Brokers } from '../brokers.js';
import type { SearchHistory } from '../catalog/search-history.js';
import type { Engine } from '../engine/wiring.js';
import type { GatewayConfig } from '../gateway.config.js';
import { Purges } from './purges.js';
import { RedisPurgeStore } from './redis-purge-store.js';
import { scannedKeys } from './redis-scan.js';
import { purgeSteps } from './steps.js';

interface PurgeDeps {
  brokers: Brokers;
  keys: ApiKeys;
  engine: Pick<Engine, 'results' | 'largeResults' | 'recentCalls'>;
  catalog: { searchHistory: SearchHistory | undefined };
  queues: readonly JobQueue[];
}

/** Purges of tenants and users, with all stores that gateways know. */
export function wirePurges(settings: GatewayConfig, host: ServiceHost, deps: PurgeDeps): Purges {
  const { brokers, keys, engine, catalog, queues } = deps;
  const { results, largeResults, recentCalls } = engine;
  const connect = async () => {
    const login = settings.REDIS_PURGE_PASSWORD && { username: 'purge', password: settings.REDIS_PURGE_PASSWORD };
    const redis = connectRedis(settings.REDIS_URL, { name: 'gateway-purge', ...toRedisOptions(settings), ...login });
    await openRedis(redis, settings.REDIS_URL);
    return { redis, close: () => closeRedis(redis) };
  };
  const calls = scannedKeys({ connect, queues, results, large: largeResults });
  return new Purges({
    store: new RedisPurgeStore(brokers.redis),
    steps: purgeSteps({
      keys,
      calls,
      recentCalls,
      searches: catalog.searchHistory,
      results,
      largeResults,
      nats: brokers.nats,
    }),
    keyIds: async ({ tenantId, userId }) => {
      const found = await keys.list(tenantId);
      return found.filter((key) => userId === undefined || key.userId === userId).map((key) => key.id);
    },
    clock: host.clock,
    logger: host.logger,
  });
}
