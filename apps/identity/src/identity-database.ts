import { migrate } from '@toolfleet/database';
import { Kysely, type Dialect } from 'kysely';
import { IDENTITY_MIGRATIONS, type IdentityDb, type IdentityTables } from './identity-tables.js';

/** The database of the service: the embedded SQLite, or PostgreSQL with the same columns and portable SQL. */
export class IdentityDatabase {
  readonly db: IdentityDb;

  constructor(dialect: Dialect) {
    this.db = new Kysely<IdentityTables>({ dialect });
  }

  /**
   * Runs the migrations that are new to the database.
   * @throws FatalStartupError when it needs a newer release
   */
  open(): Promise<void> {
    return migrate(this.db, IDENTITY_MIGRATIONS);
  }

  close(): Promise<void> {
    return this.db.destroy();
  }
}
