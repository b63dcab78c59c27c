import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';

/** What a call spent in slices has a row per slice; it names the call, so that reports count calls and not slices. */
export const slices: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    await db.schema.alterTable('token_usage').addColumn('parent_call_id', 'text').execute();
  },
  async down(db: Kysely<unknown>): Promise<void> {
    await db.schema.alterTable('token_usage').dropColumn('parent_call_id').execute();
  },
};
