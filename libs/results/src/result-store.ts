import { EgressClient, egressFetch } from '@toolfleet/egress';
import { DEFAULT_RETENTION } from '@toolfleet/journal';
import { s3Login, type S3_KEYS, type ServiceHost, type SettingsOf } from '@toolfleet/service';
import { inUpstreamSpan } from '@toolfleet/telemetry';
import { BucketObjectStore } from './bucket-object-store.js';
import { DirectoryObjectStore } from './directory-object-store.js';
import type { ObjectStore } from './object-store.js';
import { StoredResults } from './stored-results.js';

/** Settings of the gateway that concern the result store. */
interface ResultStoreSettings extends SettingsOf<typeof S3_KEYS> {
  RESULT_STORE: 'redis' | 'directory' | 's3';
  RESULT_STORE_DIR?: string | undefined;
  RESULT_STORE_THRESHOLD_KB: number;
  CALL_RESULT_TTL_SECONDS: number;
  GATEWAY_ASYNC_TIMEOUT_MS: number;
}

/** Larger than any result that a call can have. */
const MAX_OBJECT_BYTES = 64 * 1024 * 1024;

/** The result store of the settings; undefined where all results are kept in Redis. */
export function resultStore(
  settings: ResultStoreSettings,
  { clock, logger, metrics }: ServiceHost,
): StoredResults | undefined {
  const store = objectStore(settings);
  if (!store) return undefined;
  // rate() sees no increase in a series that starts above 0.
  for (const operation of ['put', 'get', 'delete', 'sweep']) metrics.resultStoreFailures.inc({ operation }, 0);
  return new StoredResults({
    store,
    thresholdBytes: settings.RESULT_STORE_THRESHOLD_KB * 1024,
    clock,
    longestTtlMs:
      Math.max(settings.CALL_RESULT_TTL_SECONDS * 1_000, DEFAULT_RETENTION.keyedMs) + settings.GATEWAY_ASYNC_TIMEOUT_MS,
    onFailure: (operation, error) => {
      metrics.resultStoreFailures.inc({ operation });
      logger.warn({ operation, error }, 'the result store failed');
    },
  });
}

function objectStore(settings: ResultStoreSettings): ObjectStore | undefined {
  if (settings.RESULT_STORE === 'redis') return undefined;
  if (settings.RESULT_STORE === 'directory') return new DirectoryObjectStore(settings.RESULT_STORE_DIR ?? '');
  const login = s3Login(settings);
  const egress = new EgressClient({
    allowlist: [],
    allowedEndpoints: [new URL(login.endpoint).origin],
    trace: inUpstreamSpan,
    limits: { maxBytes: MAX_OBJECT_BYTES },
  });
  return new BucketObjectStore({ ...login, prefix: 'results/', fetch: egressFetch(egress) }, egress);
}
