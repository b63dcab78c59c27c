import {
  defineConfig,
  durationMs,
  integer,
  list,
  MIN_SECRET_KEY_LENGTH,
  NATS_KEYS,
  path,
  secret,
  url,
  type SettingsOf,
} from '@toolfleet/service';
import { readTenantDays } from './tenant-days.js';

/** All environment variables of the service `records`. */
export const recordsConfig = defineConfig('records', {
  ...NATS_KEYS,
  DATABASE_URL: url({
    optional: true,
    schemes: ['postgres', 'postgresql'],
    help: 'PostgreSQL of the records of calls; unset means the embedded SQLite, which allows one replica',
  }),
  DATABASE_PASSWORD: secret({ optional: true, help: 'Password for PostgreSQL; overrides the one in the URL' }),
  DATABASE_TLS_CA: path({
    optional: true,
    must: 'file',
    help: 'CA file of PostgreSQL; requires TLS with a verified host name',
  }),
  RECORDS_DATABASE_PATH: path({
    default: '.toolfleet/data/records.db',
    help: 'File of the embedded records of calls; not used with DATABASE_URL',
  }),
  RECORDS_STORE_TIMEOUT_MS: durationMs({
    default: 5_000,
    min: 50,
    max: 30_000,
    help: 'Longest wait for the store before a list of calls fails with SERVICE_UNAVAILABLE',
  }),
  RECORDS_SECRET_KEY: secret({
    optional: true,
    minLength: MIN_SECRET_KEY_LENGTH,
    help: 'Seals the keys of tenants, which seal arguments and results of calls; unset: the service keeps none, whatever call_bodies says',
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
});
export type RecordsConfig = SettingsOf<(typeof recordsConfig)['table']>;
