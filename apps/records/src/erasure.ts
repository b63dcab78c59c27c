/** A tenant, or one of its users with the keys that act for it. */
export interface Owner {
  tenantId: string;
  userId?: string | undefined;
  keyIds?: readonly string[] | undefined;
}

/** Tenants with their own retention, one by one, and all others. */
export type Tenants = { only: string } | { except: readonly string[] };

/** Ids of one statement. */
const MOST = 500;

/** Calls `erase` with all ids, some at a time. */
export async function inParts(
  ids: readonly string[],
  erase: (some: readonly string[]) => Promise<unknown>,
): Promise<void> {
  for (let from = 0; from < ids.length; from += MOST) await erase(ids.slice(from, from + MOST));
}
