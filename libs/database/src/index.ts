export { DAY_MS, DayPartitions, epochDay } from './day-partitions.js';
export { databaseSettings, postgresDialect, serviceDialect, sqliteDialect } from './dialects.js';
export { migrate, type Migration, type Migrations } from './migrate.js';
