export { BulkInsert, inParts, Prepared } from './bulk-insert.js';
export { DAY_MS, DayPartitions, epochDay } from './day-partitions.js';
export { databaseSettings, isPostgres, postgresDialect, serviceDialect } from './dialects.js';
export { sqliteDialect } from './sqlite.js';
export { migrate, type Migration, type Migrations } from './migrate.js';
export { erase, eraseIds, lockRow, newestFirst, ofOwner, ofTenants, type Owner, type Tenants } from './rows.js';
export {
  bytes,
  createTables,
  each,
  flag,
  integer,
  json,
  maybe,
  oneOf,
  prefixedText,
  real,
  serial,
  table,
  text,
  type Column,
  type TableDefinition,
  type TablesOf,
} from './table.js';
