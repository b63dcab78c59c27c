/** Conditions and steps that stores have in common. Their SQL is the same in SQLite and PostgreSQL. */
import { sql, type QueryExecutorProvider, type RawBuilder, type SelectQueryBuilder } from 'kysely';

/** A tenant, or one of its users with the keys that act for it. */
export interface Owner {
  tenantId: string;
  userId?: string | undefined;
  keyIds?: readonly string[] | undefined;
}

/** Tenants with their own retention, one by one, and all others. */
export type Tenants = { only: string } | { except: readonly string[] };

/** The rows of a tenant; of a user, those with one of the `columns` of its id, or with one of its keys. */
export function ofOwner(
  { tenantId, userId, keyIds = [] }: Owner,
  columns: readonly string[] = ['user_id'],
): RawBuilder<boolean> {
  const isTenant = sql<boolean>`tenant_id = ${tenantId}`;
  if (userId === undefined) return isTenant;
  const ways = columns.map((column) => sql<boolean>`${sql.ref(column)} = ${userId}`);
  if (keyIds.length > 0) ways.push(sql`key_id in (${sql.join(keyIds)})`);
  return sql`${isTenant} and (${sql.join(ways, sql` or `)})`;
}

/** The rows of tenants with one retention. */
export function ofTenants(tenants: Tenants): RawBuilder<boolean> {
  if ('only' in tenants) return sql`tenant_id = ${tenants.only}`;
  return tenants.except.length === 0 ? sql`1 = 1` : sql`tenant_id not in (${sql.join(tenants.except)})`;
}

/** Deletes the rows that match, or counts them in a dry run. @returns how many */
export async function erase(
  db: QueryExecutorProvider,
  table: string,
  condition: RawBuilder<boolean>,
  dryRun = false,
): Promise<number> {
  const from = sql`from ${sql.table(table)} where ${condition}`;
  if (!dryRun) return Number((await sql`delete ${from}`.execute(db)).numAffectedRows);
  const { rows } = await sql<{ count: number }>`select count(*) as count ${from}`.execute(db);
  return rows[0]!.count;
}

/** Ids of one statement. */
const IDS = 500;

/** Deletes rows by an id, some at a time, from several tables. */
export async function eraseIds(
  db: QueryExecutorProvider,
  tables: readonly string[],
  column: string,
  ids: readonly string[],
): Promise<void> {
  for (let from = 0; from < ids.length; from += IDS)
    for (const table of tables)
      await erase(db, table, sql`${sql.ref(column)} in (${sql.join(ids.slice(from, from + IDS))})`);
}

/** Keeps other transactions from changing a row until the end of this one: an update takes its lock in both databases. */
export async function lockRow(tx: QueryExecutorProvider, table: string, column: string, id: string): Promise<void> {
  const key = sql.ref(column);
  await sql`update ${sql.table(table)} set ${key} = ${key} where ${key} = ${id}`.execute(tx);
}

/**
 * A page of rows, the newest first.
 * @param by the instant and the id that order rows; both are selected
 * @param before cursor of the page before
 * @returns `next`: cursor of the next page; undefined after the last one
 */
export async function newestFirst<Tables, From extends keyof Tables, Row>(
  select: SelectQueryBuilder<Tables, From, Row>,
  by: readonly [at: keyof Row & string, id: keyof Row & string],
  { before, limit }: { before?: string | undefined; limit: number },
): Promise<{ rows: Row[]; next: string | undefined }> {
  const [at, id] = by.map((column) => sql.ref(column)) as [RawBuilder<unknown>, RawBuilder<unknown>];
  const [instant, last] = before?.split(/\.(.*)/s) ?? [];
  if (last !== undefined) select = select.where(sql<boolean>`(${at}, ${id}) < (${Number(instant) || 0}, ${last})`);
  const rows = await select.orderBy(at, 'desc').orderBy(id, 'desc').limit(limit).execute();
  const end = rows.length === limit ? rows.at(-1) : undefined;
  return { rows: rows as Row[], next: end && `${String(end[by[0] as never])}.${String(end[by[1] as never])}` };
}
