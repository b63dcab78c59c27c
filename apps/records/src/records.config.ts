import {
  DATABASE_KEYS,
  defineConfig,
  durationMs,
  EGRESS_KEYS,
  hostList,
  integer,
  list,
  MIN_SECRET_KEY_LENGTH,
  NATS_KEYS,
  secret,
  TENANT_QUOTAS,
  type SettingsOf,
} from '@toolfleet/service';
import { readTenantDays } from './tenant-days.js';

/** A wildcard needs no development flag here. */
const { EGRESS_ALLOW_ANY_HOST: _, ...WEBHOOK_EGRESS } = EGRESS_KEYS;

/** All environment variables of the service `records`. */
export const recordsConfig = defineConfig('records', {
  ...NATS_KEYS,
  TENANT_QUOTAS,
  ...DATABASE_KEYS,
  RECORDS_SECRET_KEY: secret({
    optional: true,
    minLength: MIN_SECRET_KEY_LENGTH,
    help: 'Seals the keys of tenants, which seal arguments and results of calls, and the secrets of webhooks; unset: the service keeps no arguments and results, whatever call_bodies says, and has no webhooks',
  }),
  RECORDS_RETENTION_DAYS: integer({
    default: 30,
    min: 1,
    max: 36_500,
    help: 'Days for which a finished call can be found',
  }),
  RECORDS_RETENTION_DAYS_OF: list({
    default: [],
    item: readTenantDays,
    help: 'Tenants with another retention: acme=90,globex=7',
  }),
  WEBHOOK_ALLOWED_DOMAINS: hostList({
    default: [],
    help: 'Hosts that events may be posted to: host, *.host, host:port; * for every public host, in production as well: tenants choose them, and get their own events only',
  }),
  WEBHOOK_TIMEOUT_MS: durationMs({
    default: 10_000,
    min: 100,
    max: 30_000,
    help: 'Longest time of one request to a webhook, its answer included',
  }),
  ...WEBHOOK_EGRESS,
});
export type RecordsConfig = SettingsOf<(typeof recordsConfig)['table']>;
