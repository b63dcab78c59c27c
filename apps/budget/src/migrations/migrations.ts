import type { Migration } from 'kysely/migration';
import { tokenUsage } from './0001-token-usage.js';
import { slices } from './0002-slices.js';

/** Every migration, by name in order of use; one set for SQLite and PostgreSQL. A migration that shipped is never edited. */
export const MIGRATIONS: Record<string, Migration> = {
  '0001-token-usage': tokenUsage,
  '0002-slices': slices,
};
