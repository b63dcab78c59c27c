import { flag, list, maybe, record, text, type Value } from '../json-schema.js';

const ID = text(undefined, { minLength: 1, maxLength: 200 });

/**
 * `registry.purge`, `workspace.purge`, `budget.purge`, `records.purge`, `identity.purge`: a service removes the data of a tenant or one of its users. A service
 * works for some seconds per request; the caller repeats the request while `more` is true. Repeating it is always safe.
 */
export const PURGE = record({
  tenant_id: ID,
  /** Only the data of this user. */
  user_id: maybe(ID),
  /** API keys of the user; their calls are its own. */
  key_ids: maybe(list(ID)),
  /** Only counts. */
  dry_run: flag(),
  /** `next` of the reply before this request. */
  after: maybe(text(undefined, { maxLength: 200 })),
  /** Replaces the id of the tenant or user in the ledger; amounts stay. */
  pseudonym: text(undefined, { pattern: '^purged-[0-9a-f-]{8,40}$' }),
});
export type PurgeMessage = Value<typeof PURGE>;

export interface PurgeReply {
  /** Rows that this request removed or rewrote, or a dry run found, by kind. */
  counts: Record<string, number>;
  more: boolean;
  /** Where the next request goes on, for a service that does not find that out itself. */
  next?: string | undefined;
}

/** Maximum time that a service works on one purge request. */
export const PURGE_TURN_MS = 10_000;
