import { closeRedis, connectRedis, openRedis, toRedisOptions, type JobQueue } from '@toolfleet/queue';
import type { ServiceHost } from '@toolfleet/service';
import type { Brokers } from './brokers.js';
import type { GatewayConfig } from '../gateway.config.js';
import type { Auth } from './wire-auth.js';
import type { GatewayCatalog } from './wire-catalog.js';
import type { Results } from './wire-results.js';
import { Purges, RedisPurgeStore, scannedKeys } from '@toolfleet/records';
import { RedisDeclarations } from '../operator/redis-declarations.js';
import { purgeSteps } from '../operator/steps.js';

interface PurgeDeps {
  brokers: Brokers;
  auth: Auth;
  results: Results;
  catalog: GatewayCatalog;
  queues: readonly JobQueue[];
}

/** Purges of tenants and users, with all stores that gateways know. */
export function wirePurges(settings: GatewayConfig, host: ServiceHost, deps: PurgeDeps): Purges {
  const { brokers, catalog, queues } = deps;
  const { keys, people } = deps.auth;
  const { kept: results, largeResults } = deps.results;
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
      people,
      calls,
      recordsCalls: settings.GATEWAY_CALL_SPOOL > 0,
      hasIdentity: settings.GATEWAY_IDENTITY,
      declarations: new RedisDeclarations(brokers.redis),
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
    onAge: (ageMs) => host.metrics.purgeAge.set(ageMs / 1_000),
  });
}
