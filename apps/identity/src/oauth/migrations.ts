import type { Migration } from '@toolfleet/database';

/**
 * Sessions of clients name the client. `oauth_record` has what the authorization server keeps: codes, tokens, grants, registered clients; sealed,
 * found by hashes.
 */
export const oauth: Migration = {
  async up(db) {
    for (const column of ['client_id', 'client_name'])
      await db.schema.alterTable('sign_in_session').addColumn(column, 'text').execute();
    await db.schema
      .createTable('oauth_record')
      .addColumn('digest', 'text', (column) => column.primaryKey())
      .addColumn('kind', 'text', (column) => column.notNull())
      .addColumn('grant_id', 'text')
      .addColumn('uid', 'text')
      .addColumn('sealed', 'text', (column) => column.notNull())
      .addColumn('consumed_at', 'bigint')
      .addColumn('expires_at', 'bigint', (column) => column.notNull())
      .execute();
    const index = (name: string, columns: string[]) =>
      db.schema.createIndex(`oauth_record_${name}`).on('oauth_record').columns(columns).execute();
    await index('grant', ['grant_id']);
    await index('uid', ['kind', 'uid']);
    await index('end', ['expires_at']);
  },
};
