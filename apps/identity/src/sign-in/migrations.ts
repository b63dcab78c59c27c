import type { Migration } from '@toolfleet/database';

/** `used_once` has the states of sign-ins and the ids of logout tokens that were used, until they would be refused anyway. */
export const signIn: Migration = {
  async up(db) {
    await db.schema
      .createTable('used_once')
      .addColumn('digest', 'text', (column) => column.primaryKey())
      .addColumn('expires_at', 'bigint', (column) => column.notNull())
      .execute();
    await db.schema.createIndex('used_once_end').on('used_once').column('expires_at').execute();
  },
};
