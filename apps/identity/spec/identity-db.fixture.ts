import { migrate } from '@toolfleet/database';
import { Kysely, type Dialect } from 'kysely';
import { IDENTITY_MIGRATIONS, type IdentityDb } from '../src/identity-tables.js';

/** A database of the service with its tables. Destroy it after the test. */
export async function openIdentityDb(dialect: Dialect): Promise<IdentityDb> {
  const db: IdentityDb = new Kysely({ dialect });
  await migrate(db, IDENTITY_MIGRATIONS);
  return db;
}
