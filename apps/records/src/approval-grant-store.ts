import { createHmac, randomUUID, type KeyObject } from 'node:crypto';
import { isSameQuestion, type ApprovalRule, type EpochMs, type JsonObject } from '@toolfleet/contracts';
import { quotaExceeded } from '@toolfleet/contracts/account';
import { countsAs, type ApprovalPerson, type GrantUse, type GrantUseReply } from '@toolfleet/contracts/approvals';
import { eraseIds, lockRow, newestFirst, ofTenants, type Owner, type Tenants } from '@toolfleet/database';
import { canonicalJson } from '@toolfleet/bounded-schema';
import { openBytes, sealBytes } from '@toolfleet/service';
import { sql } from 'kysely';
import type { BodyStore } from './body-store.js';
import type { RecordsDb, RecordsTx, RecordsRow } from './tables.js';

/** Lets calls of a user through: the user's, with any credential, or the one credential's where it has no user. */
export type GrantRow = RecordsRow<'approval_grant'>;

/** Absent members match all; `ended`: also grants that let no call through any more. */
interface GrantQuery {
  tenant_id?: string | undefined;
  tool?: string | undefined;
  ended?: boolean | undefined;
  /** `next` of the previous page. */
  before?: string | undefined;
  limit: number;
}

/** The call with the approval that gives a grant. */
type GrantedCall = Pick<
  RecordsRow<'call_approval'>,
  'call_id' | 'tenant_id' | 'user_id' | 'key_id' | 'asker' | 'acting_user_id' | 'tool' | 'revision' | 'rule'
>;

/**
 * Grants of people for calls to come, in the database of the approvals. A grant is bound to tenant, user, tool and its revision, the rule
 * with its text, and the arguments that may not differ. Each use reads and counts it in a transaction that holds its row: of two gateways
 * one waits, and none uses a grant after its revocation was answered. Database failures reject.
 */
export class ApprovalGrantStore {
  constructor(
    private readonly db: RecordsDb,
    private readonly bodies: BodyStore,
    /** Active grants of one user for one revision of a tool: all of them may have to be compared with a call. */
    private readonly most: number,
  ) {}

  /**
   * Stores what all that agreed to a call allow besides it, in the transaction of the last yes; nothing if one of them allows no more.
   * @returns the id of the grant
   * @throws ToolError QUOTA_EXCEEDED when the user has too many of them for the tool
   */
  async create(
    tx: RecordsTx,
    call: GrantedCall,
    args: JsonObject | undefined,
    now: EpochMs,
  ): Promise<string | undefined> {
    const votes = await tx.selectFrom('approval_vote').selectAll().where('call_id', '=', call.call_id).execute();
    const offer = call.rule.grant;
    const voted = votes.map(({ granted }) => granted);
    if (!offer || !args || voted.length === 0 || !voted.every((one) => one !== undefined)) return undefined;
    const fields = offer.fields.filter((field) => voted.every((one) => one.fields.includes(field)));
    const until = Math.min(now + offer.max_s * 1_000, ...voted.map((one) => one.until));
    const maxUses = Math.min(offer.max_uses ?? Infinity, ...voted.map((one) => one.max_uses ?? Infinity));
    const { tenant_id, user_id, acting_user_id, tool, revision } = call;
    const owner = {
      tenant_id,
      user_id,
      key_id: user_id === '' ? call.key_id : undefined,
      acting_user_id,
      tool,
      revision,
    };
    if ((await this.#active(tx, owner, now)).length >= this.most) throw quotaExceeded('approval_grants', this.most);
    const grant_id = randomUUID();
    const { id: seal_key_id, key } = await this.bodies.sealingKey(tx, tenant_id, now);
    const pinned = pinnedText(args, fields);
    const granted_by = votes.map((vote) => toPerson(vote, vote.voter, vote.voter_kind));
    await tx
      .insertInto('approval_grant')
      .values({
        ...{ grant_id, call_id: call.call_id, ...owner, asker: call.asker, rule: call.rule },
        ...{ fields, granted_at: now, until, granted_by, seal_key_id },
        ...{ max_uses: maxUses === Infinity ? undefined : maxUses, uses: 0 },
        sealed: sealBytes(key, pinned, place(tenant_id, grant_id)),
        digest: digest(key, pinned),
      })
      .execute();
    return grant_id;
  }

  /** The grant that covers a call; it is counted. */
  async use(asked: GrantUse, now: EpochMs): Promise<GrantUseReply> {
    const { requester, acting_user_id, tool, revision } = asked;
    const { tenant_id, user_id } = requester;
    const key_id = user_id === '' ? requester.key_id : undefined;
    const owner = { tenant_id, user_id, key_id, acting_user_id, tool, revision };
    const given = await this.#active(this.db, owner, now);
    // With the name of the user on a key, those that gave a grant to another person could decide on calls of their own.
    const person = personId(requester);
    const active = given.filter(
      (grant) => grant.asker === person || !grant.granted_by.some((one) => personId(one) === person),
    );
    if (active.length === 0 || (await this.#isApproved(asked, now))) return {};
    const keys = new Map<string, KeyObject | undefined>();
    for (const grant of active) {
      const { seal_key_id: keyId } = grant;
      if (!isWithin(grant, asked.rule, now)) continue;
      if (!keys.has(keyId)) keys.set(keyId, await this.bodies.openingKey(this.db, tenant_id, keyId));
      const key = keys.get(keyId);
      if (!key || digest(key, pinnedText(asked.arguments, grant.fields)) !== grant.digest) continue;
      if (await this.#count(grant.grant_id, asked, now)) return { grant_id: grant.grant_id };
    }
    return {};
  }

  /** Whether the call was approved itself, and its caller makes it again. */
  async #isApproved({ requester, ask_key }: GrantUse, now: EpochMs): Promise<boolean> {
    if (ask_key === undefined) return false;
    const found = await this.db
      .selectFrom('call_approval')
      .select('call_id')
      .where('tenant_id', '=', requester.tenant_id)
      .where('ask_key', '=', ask_key)
      .where('state', '=', 'approved')
      .where('until', '>', now)
      .executeTakeFirst();
    return found !== undefined;
  }

  /** Counts a call of a grant, once. @returns false when the grant has ended */
  #count(grantId: string, { use_key, call_id, rule }: GrantUse, now: EpochMs): Promise<boolean> {
    return this.db.transaction().execute(async (tx) => {
      const row = await this.#locked(tx, grantId);
      if (!row || row.revoked_at !== undefined || row.until <= now) return false;
      const known = await tx
        .selectFrom('approval_grant_use')
        .select('grant_id')
        .where('grant_id', '=', grantId)
        .where('use_key', '=', use_key)
        .executeTakeFirst();
      if (known) return true;
      if (row.uses >= Math.min(row.max_uses ?? Infinity, rule.grant?.max_uses ?? Infinity)) return false;
      await tx.insertInto('approval_grant_use').values({ grant_id: grantId, use_key, call_id, used_at: now }).execute();
      await tx
        .updateTable('approval_grant')
        .set({ uses: row.uses + 1, last_used_at: now })
        .where('grant_id', '=', grantId)
        .execute();
      return true;
    });
  }

  /** Grants of one user for one revision of a tool that are in force, longest first; also used up ones, because their calls may ask again. */
  #active(
    db: RecordsDb,
    owner: Pick<GrantRow, 'tenant_id' | 'user_id' | 'key_id' | 'acting_user_id' | 'tool' | 'revision'>,
    now: EpochMs,
  ): Promise<GrantRow[]> {
    const { key_id, ...same } = owner;
    let select = db.selectFrom('approval_grant').selectAll().where(isOpen(now));
    for (const [column, value] of Object.entries(same) as [keyof typeof same, string][])
      select = select.where(column, '=', value);
    select = key_id === undefined ? select.where('key_id', 'is', null) : select.where('key_id', '=', key_id);
    return select.orderBy('until', 'desc').limit(this.most).execute();
  }

  /** Grants that match, the newest first. */
  async list({ tenant_id, tool, ended, ...page }: GrantQuery, now: EpochMs) {
    let select = this.db.selectFrom('approval_grant').selectAll();
    if (tenant_id !== undefined) select = select.where('tenant_id', '=', tenant_id);
    if (tool !== undefined) select = select.where('tool', '=', tool);
    if (ended !== true) select = select.where(isOpen(now)).where(hasUses);
    return newestFirst(select, ['granted_at', 'grant_id'], page);
  }

  find(grantId: string): Promise<GrantRow | undefined> {
    return this.db.selectFrom('approval_grant').selectAll().where('grant_id', '=', grantId).executeTakeFirst();
  }

  /** The arguments that its calls have; undefined if they were sealed with another `RECORDS_SECRET_KEY`. */
  async open({ grant_id, tenant_id, seal_key_id, sealed }: GrantRow): Promise<JsonObject | undefined> {
    const key = await this.bodies.openingKey(this.db, tenant_id, seal_key_id);
    return key && (JSON.parse(openBytes(key, sealed, place(tenant_id, grant_id))) as JsonObject);
  }

  /** Ends a grant. Once this resolves, no call uses it. @returns the grant; undefined if there is none */
  revoke(grantId: string, by: ApprovalPerson, now: EpochMs): Promise<GrantRow | undefined> {
    return this.db.transaction().execute(async (tx) => {
      const row = await this.#locked(tx, grantId);
      if (!row || row.revoked_at !== undefined) return row;
      const revoked = { revoked_at: now, revoked_by: by };
      await tx.updateTable('approval_grant').set(revoked).where('grant_id', '=', grantId).execute();
      return { ...row, ...revoked };
    });
  }

  /** Deletes grants that ended before `at`, of one tenant or of all except some. */
  async eraseBefore(at: EpochMs, tenants: Tenants): Promise<void> {
    const ended = await this.db
      .selectFrom('approval_grant')
      .select('grant_id')
      .where((where) => where.or([where('until', '<', at), where('revoked_at', '<', at)]))
      .where(ofTenants(tenants))
      .execute();
    await this.#delete(ended.map(({ grant_id }) => grant_id));
  }

  /**
   * Deletes the grants of a tenant, or those that a user has or gave; counts them in a dry run.
   * @returns the number of grants
   */
  async eraseOwner({ tenantId, userId, keyIds = [] }: Owner, dryRun: boolean): Promise<number> {
    const select = this.db
      .selectFrom('approval_grant')
      .select(['grant_id', 'tenant_id', 'user_id', 'key_id', 'asker', 'acting_user_id', 'granted_by']);
    const isUser = (one: ApprovalPerson) =>
      [one, countsAs(one)].some((by) => by.tenant_id === tenantId && (userId ?? by.user_id) === by.user_id);
    const ids = (await select.execute())
      .filter((row) => {
        if (row.granted_by.some(isUser)) return true;
        if (row.tenant_id !== tenantId || userId === undefined) return row.tenant_id === tenantId;
        if (row.asker === personId({ tenant_id: tenantId, user_id: userId })) return true;
        return row.user_id === userId || row.acting_user_id === userId || keyIds.includes(row.key_id ?? '');
      })
      .map(({ grant_id }) => grant_id);
    if (!dryRun) await this.#delete(ids);
    return ids.length;
  }

  #delete(ids: readonly string[]): Promise<void> {
    return eraseIds(this.db, ['approval_grant_use', 'approval_grant'], 'grant_id', ids);
  }

  /** The row, locked until the end of the transaction. */
  async #locked(tx: RecordsTx, grantId: string): Promise<GrantRow | undefined> {
    await lockRow(tx, 'approval_grant', 'grant_id', grantId);
    return tx.selectFrom('approval_grant').selectAll().where('grant_id', '=', grantId).executeTakeFirst();
  }
}

const isOpen = (now: EpochMs) => sql<boolean>`revoked_at is null and until > ${now}`;
const hasUses = sql<boolean>`(max_uses is null or uses < max_uses)`;

/** Whether a grant allows no more than the rules offer now: the same people agree to the same text, for no longer, with no other arguments. */
function isWithin(grant: GrantRow, rule: ApprovalRule, now: EpochMs): boolean {
  const { grant: offer } = rule;
  if (!offer || !isSameQuestion(grant.rule, rule)) return false;
  const isYoung = grant.granted_at + offer.max_s * 1_000 > now;
  return isYoung && grant.fields.every((field) => offer.fields.includes(field));
}

/** The arguments that may not differ, as canonical JSON (RFC 8785). */
const pinnedText = (args: JsonObject, fields: readonly string[]): string =>
  canonicalJson(Object.fromEntries(Object.entries(args).filter(([name]) => !fields.includes(name))));

const digest = (key: KeyObject, text: string): string =>
  createHmac('sha256', key).update(`grant\0${text}`).digest('hex');

const place = (tenantId: string, grantId: string): string => `${tenantId}/grant/${grantId}`;

/** Identifies the person that a credential counts as, in columns. */
export function personId(by: ApprovalPerson): string {
  const { tenant_id, user_id } = countsAs(by);
  return JSON.stringify([tenant_id, user_id]);
}

/** @param person `personId` of it */
export function toPerson(
  { tenant_id, user_id, key_id }: Pick<RecordsRow<'approval_vote'>, 'tenant_id' | 'user_id' | 'key_id'>,
  person?: string,
  kind?: string,
): ApprovalPerson {
  const by = { tenant_id, user_id, key_id };
  if (person === undefined || kind === undefined) return by;
  const [tenantId, userId] = JSON.parse(person) as [string, string];
  return { ...by, person: { tenant_id: tenantId, user_id: userId, kind } };
}
