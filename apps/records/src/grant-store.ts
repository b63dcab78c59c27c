import { createHmac, randomUUID } from 'node:crypto';
import { isSameQuestion, type ApprovalRule, type EpochMs, type JsonObject } from '@toolfleet/contracts';
import { quotaExceeded } from '@toolfleet/contracts/account';
import type {
  GrantList,
  GrantListReply,
  GrantRevoke,
  GrantRevokeReply,
  GrantShowReply,
  GrantUse,
  GrantUseReply,
  StoredGrant,
} from '@toolfleet/contracts/approval-grants';
import { countsAs, type ApprovalPerson, type VotedGrant } from '@toolfleet/contracts/approvals';
import { canonicalJson } from '@toolfleet/bounded-schema';
import { openBytes, sealBytes } from '@toolfleet/service';
import { sql, type Kysely, type Transaction } from 'kysely';
import type { BodyStore } from './body-store.js';
import { inParts, type Owner, type Tenants } from './erasure.js';

/** PostgreSQL returns bigint as text, so values are converted where they are read. */
interface GrantTable {
  grant_id: string;
  call_id: string;
  tenant_id: string;
  user_id: string;
  /** Of a requester without a user; null: all credentials of the user are covered. */
  key_id: string | null;
  /** `personId` of the person that asked for the call. Null: it is not known. */
  asker: string | null;
  acting_user_id: string;
  tool: string;
  revision: string;
  /** JSON of `ApprovalRule`. */
  rule: string;
  /** JSON list of the arguments that may differ. */
  fields: string;
  granted_at: number;
  until: number;
  /** JSON list of those that agreed. */
  granted_by: string;
  max_uses: number | null;
  uses: number;
  last_used_at: number | null;
  revoked_at: number | null;
  revoked_by: string | null;
  seal_key_id: string;
  /** The arguments that may not differ. */
  sealed: Buffer;
  /** Their digest, with the key that seals them. */
  digest: string;
}

/** A credential that asked or voted. */
interface CredentialColumns {
  tenant_id: string;
  user_id: string;
  key_id: string | null;
}

interface Tables {
  call_approval: { call_id: string; tenant_id: string; ask_key: string | null; state: string; until: number };
  approval_grant: GrantTable;
  /** One row per call that a grant let through. */
  approval_grant_use: { grant_id: string; use_key: string; call_id: string; used_at: number };
  /** `granted` is the JSON of `VotedGrant`. */
  approval_vote: CredentialColumns & {
    call_id: string;
    voter: string;
    voter_kind: string | null;
    granted: string | null;
  };
}

/** The call whose approval gives a grant. */
type GrantedCall = Pick<
  GrantTable,
  'call_id' | 'tenant_id' | 'user_id' | 'key_id' | 'asker' | 'acting_user_id' | 'tool' | 'revision' | 'rule'
>;

/**
 * Grants of people for calls to come, in the database of the approvals. A grant is bound to tenant, user, tool and its revision, the rule
 * with its text, and the arguments that may not differ. Each use reads and counts it in a transaction that holds its row: of two gateways
 * one waits, and none uses a grant after its revocation was answered. Database failures reject.
 */
export class GrantStore {
  readonly #db: Kysely<Tables>;

  constructor(
    db: Kysely<never>,
    private readonly bodies: BodyStore,
    /** Active grants of one user for one revision of a tool: all of them may have to be compared with a call. */
    private readonly most: number,
  ) {
    this.#db = db as unknown as Kysely<Tables>;
  }

  /**
   * Stores what all that agreed to a call allow besides it, in the transaction of the last yes; nothing if one of them allows no more.
   * @returns the id of the grant
   * @throws ToolError QUOTA_EXCEEDED when the user has too many of them for the tool
   */
  async create(
    transaction: Transaction<never>,
    call: GrantedCall,
    args: JsonObject | undefined,
    now: EpochMs,
  ): Promise<string | undefined> {
    const tx = transaction as unknown as Transaction<Tables>;
    const votes = await tx.selectFrom('approval_vote').selectAll().where('call_id', '=', call.call_id).execute();
    const offer = (JSON.parse(call.rule) as ApprovalRule).grant;
    const voted = votes.map(({ granted }) => (granted === null ? undefined : (JSON.parse(granted) as VotedGrant)));
    if (!offer || !args || voted.length === 0 || !voted.every((one) => one !== undefined)) return undefined;
    const fields = offer.fields.filter((field) => voted.every((one) => one.fields.includes(field)));
    const until = Math.min(now + offer.max_s * 1_000, ...voted.map((one) => one.until));
    const maxUses = Math.min(offer.max_uses ?? Infinity, ...voted.map((one) => one.max_uses ?? Infinity));
    const { tenant_id, user_id, acting_user_id, tool, revision } = call;
    const owner = { tenant_id, user_id, key_id: user_id === '' ? call.key_id : null, acting_user_id, tool, revision };
    if ((await this.#active(tx, owner, now)).length >= this.most) throw quotaExceeded('approval_grants', this.most);
    const grant_id = randomUUID();
    const { id: seal_key_id, key } = await this.bodies.sealingKey(tx as never, tenant_id, now);
    const pinned = pinnedText(args, fields);
    const people = votes.map((vote) => toPerson(vote, vote.voter, vote.voter_kind));
    await tx
      .insertInto('approval_grant')
      .values({
        ...{ grant_id, call_id: call.call_id, ...owner, asker: call.asker, rule: call.rule },
        ...{ fields: JSON.stringify(fields), granted_at: now, until, granted_by: JSON.stringify(people) },
        ...{ max_uses: maxUses === Infinity ? null : maxUses, uses: 0, last_used_at: null },
        ...{ revoked_at: null, revoked_by: null, seal_key_id },
        sealed: sealBytes(key, pinned, place(tenant_id, grant_id)),
        digest: digest(key, pinned),
      })
      .execute();
    return grant_id;
  }

  /** The grant that covers a call, which counts it. */
  async use(asked: GrantUse, now: EpochMs): Promise<GrantUseReply> {
    const { requester, acting_user_id, tool, revision } = asked;
    const { tenant_id, user_id } = requester;
    const key_id = user_id === '' ? (requester.key_id ?? null) : null;
    const owner = { tenant_id, user_id, key_id, acting_user_id, tool, revision };
    const given = await this.#active(this.#db, owner, now);
    // With the name of the user on a key, those that gave a grant to another person could decide on calls of their own.
    const person = personId(requester);
    const active = given.filter(
      (grant) => grant.asker === person || !peopleOf(grant).some((one) => personId(one) === person),
    );
    if (active.length === 0 || (await this.#isApproved(asked, now))) return {};
    const keys = new Map<string, Buffer | undefined>();
    for (const grant of active) {
      const { seal_key_id: keyId } = grant;
      if (!isWithin(toGrant(grant), asked.rule, now)) continue;
      if (!keys.has(keyId)) keys.set(keyId, await this.bodies.openingKey(this.#db as never, tenant_id, keyId));
      const key = keys.get(keyId);
      const fields = JSON.parse(grant.fields) as string[];
      if (!key || digest(key, pinnedText(asked.arguments, fields)) !== grant.digest) continue;
      if (await this.#count(grant.grant_id, asked, now)) return { grant_id: grant.grant_id };
    }
    return {};
  }

  /** Whether the call was approved itself, and its caller makes it again. */
  async #isApproved({ requester, ask_key }: GrantUse, now: EpochMs): Promise<boolean> {
    if (ask_key === undefined) return false;
    const found = await this.#db
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
    return this.#db.transaction().execute(async (tx) => {
      const row = await this.#locked(tx, grantId);
      if (!row || row.revoked_at !== null || Number(row.until) <= now) return false;
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

  /** Grants of one user for one revision of a tool that are in force, those that last longest first; also used up ones, whose calls may ask again. */
  #active(
    db: Kysely<Tables>,
    owner: Pick<GrantTable, 'tenant_id' | 'user_id' | 'key_id' | 'acting_user_id' | 'tool' | 'revision'>,
    now: EpochMs,
  ): Promise<GrantTable[]> {
    const { key_id, ...same } = owner;
    let select = db.selectFrom('approval_grant').selectAll().where(isOpen(now));
    for (const [column, value] of Object.entries(same) as [keyof typeof same, string][])
      select = select.where(column, '=', value);
    select = key_id === null ? select.where('key_id', 'is', null) : select.where('key_id', '=', key_id);
    return select.orderBy('until', 'desc').limit(this.most).execute();
  }

  /** Grants that match, the newest first. */
  async list({ tenant_id, tool, ended, before, limit }: GrantList, now: EpochMs): Promise<GrantListReply> {
    let select = this.#db.selectFrom('approval_grant').selectAll();
    if (tenant_id !== undefined) select = select.where('tenant_id', '=', tenant_id);
    if (tool !== undefined) select = select.where('tool', '=', tool);
    if (ended !== true) select = select.where(isOpen(now)).where(hasUses);
    const [at, id] = before === undefined ? [] : before.split('.', 2);
    if (at !== undefined && id !== undefined)
      select = select.where((where) =>
        where.or([
          where('granted_at', '<', Number(at)),
          where.and([where('granted_at', '=', Number(at)), where('grant_id', '<', id)]),
        ]),
      );
    const rows = await select.orderBy('granted_at', 'desc').orderBy('grant_id', 'desc').limit(limit).execute();
    const end = rows.length === limit ? rows.at(-1) : undefined;
    return { grants: rows.map(toGrant), ...(end && { next: `${Number(end.granted_at)}.${end.grant_id}` }) };
  }

  /** One grant, with the arguments that its calls have on request. */
  async show(grantId: string, withArguments: boolean): Promise<GrantShowReply> {
    const row = await this.#db
      .selectFrom('approval_grant')
      .selectAll()
      .where('grant_id', '=', grantId)
      .executeTakeFirst();
    if (!row) return {};
    const { tenant_id, seal_key_id, sealed } = row;
    const key = withArguments ? await this.bodies.openingKey(this.#db as never, tenant_id, seal_key_id) : undefined;
    const opened = key && (JSON.parse(openBytes(key, sealed, place(tenant_id, grantId))) as JsonObject);
    return { grant: toGrant(row), ...(opened && { arguments: opened }) };
  }

  /** Ends a grant. Once this resolves, no call uses it. */
  revoke({ grant_id, by }: GrantRevoke, now: EpochMs): Promise<GrantRevokeReply> {
    return this.#db.transaction().execute(async (tx) => {
      const row = await this.#locked(tx, grant_id);
      if (!row) return { changed: false };
      if (row.revoked_at !== null) return { grant: toGrant(row), changed: false };
      const revoked = { revoked_at: now, revoked_by: JSON.stringify(by) };
      await tx.updateTable('approval_grant').set(revoked).where('grant_id', '=', grant_id).execute();
      return { grant: toGrant({ ...row, ...revoked }), changed: true };
    });
  }

  /** Deletes grants that ended before `at`, of one tenant or of all except some. */
  async eraseBefore(at: EpochMs, tenants: Tenants): Promise<void> {
    let ended = this.#db
      .selectFrom('approval_grant')
      .select('grant_id')
      .where((where) => where.or([where('until', '<', at), where('revoked_at', '<', at)]));
    if ('only' in tenants) ended = ended.where('tenant_id', '=', tenants.only);
    else if (tenants.except.length > 0) ended = ended.where('tenant_id', 'not in', tenants.except);
    await this.#delete((await ended.execute()).map(({ grant_id }) => grant_id));
  }

  /**
   * Deletes the grants of a tenant, or those that a user has or gave; counts them in a dry run.
   * @returns the number of grants
   */
  async eraseOwner({ tenantId, userId, keyIds = [] }: Owner, dryRun: boolean): Promise<number> {
    const select = this.#db
      .selectFrom('approval_grant')
      .select(['grant_id', 'tenant_id', 'user_id', 'key_id', 'asker', 'acting_user_id', 'granted_by']);
    const isUser = (one: ApprovalPerson) =>
      [one, countsAs(one)].some((by) => by.tenant_id === tenantId && (userId ?? by.user_id) === by.user_id);
    const ids = (await select.execute())
      .filter((row) => {
        if (peopleOf(row).some(isUser)) return true;
        if (row.tenant_id !== tenantId || userId === undefined) return row.tenant_id === tenantId;
        if (row.asker === personId({ tenant_id: tenantId, user_id: userId })) return true;
        return row.user_id === userId || row.acting_user_id === userId || keyIds.includes(row.key_id ?? '');
      })
      .map(({ grant_id }) => grant_id);
    if (!dryRun) await this.#delete(ids);
    return ids.length;
  }

  #delete(ids: readonly string[]): Promise<void> {
    return inParts(ids, async (some) => {
      for (const table of ['approval_grant_use', 'approval_grant'] as const)
        await this.#db.deleteFrom(table).where('grant_id', 'in', some).execute();
    });
  }

  /** The row, which no other transaction changes until the end of this one: the update takes its lock in both databases. */
  async #locked(tx: Transaction<Tables>, grantId: string): Promise<GrantTable | undefined> {
    await tx.updateTable('approval_grant').set({ grant_id: grantId }).where('grant_id', '=', grantId).execute();
    return tx.selectFrom('approval_grant').selectAll().where('grant_id', '=', grantId).executeTakeFirst();
  }
}

const isOpen = (now: EpochMs) => sql<boolean>`revoked_at is null and until > ${now}`;
const hasUses = sql<boolean>`(max_uses is null or uses < max_uses)`;

/** Whether a grant allows no more than the rules offer now: the same people agree to the same text, for no longer, with no other arguments. */
function isWithin(grant: StoredGrant, rule: ApprovalRule, now: EpochMs): boolean {
  const { grant: offer } = rule;
  if (!offer || !isSameQuestion(grant.rule, rule)) return false;
  const isYoung = grant.granted_at + offer.max_s * 1_000 > now;
  return isYoung && grant.fields.every((field) => offer.fields.includes(field));
}

/** The arguments that may not differ, as canonical JSON (RFC 8785). */
const pinnedText = (args: JsonObject, fields: readonly string[]): string =>
  canonicalJson(Object.fromEntries(Object.entries(args).filter(([name]) => !fields.includes(name))));

const digest = (key: Buffer, text: string): string => createHmac('sha256', key).update(`grant\0${text}`).digest('hex');

const place = (tenantId: string, grantId: string): string => `${tenantId}/grant/${grantId}`;

/** Identifies the person that a credential counts as, in columns. */
export function personId(by: ApprovalPerson): string {
  const { tenant_id, user_id } = countsAs(by);
  return JSON.stringify([tenant_id, user_id]);
}

/** @param person `personId` of it */
export function toPerson(
  { tenant_id, user_id, key_id }: CredentialColumns,
  person: string | null = null,
  kind: string | null = null,
): ApprovalPerson {
  const by = { tenant_id, user_id, ...(key_id !== null && { key_id }) };
  if (person === null || kind === null) return by;
  const [tenantId, userId] = JSON.parse(person) as [string, string];
  return { ...by, person: { tenant_id: tenantId, user_id: userId, kind } };
}

const peopleOf = ({ granted_by }: Pick<GrantTable, 'granted_by'>) => JSON.parse(granted_by) as ApprovalPerson[];

function toGrant(row: GrantTable): StoredGrant {
  const { grant_id, call_id, acting_user_id, tool, revision, max_uses, last_used_at, revoked_at, revoked_by } = row;
  return {
    ...{ grant_id, call_id, acting_user_id, tool, revision },
    requester: toPerson(row),
    rule: JSON.parse(row.rule) as ApprovalRule,
    fields: JSON.parse(row.fields) as string[],
    granted_at: Number(row.granted_at),
    until: Number(row.until),
    granted_by: peopleOf(row),
    uses: Number(row.uses),
    ...(max_uses !== null && { max_uses: Number(max_uses) }),
    ...(last_used_at !== null && { last_used_at: Number(last_used_at) }),
    ...(revoked_at !== null && { revoked_at: Number(revoked_at) }),
    ...(revoked_by !== null && { revoked_by: JSON.parse(revoked_by) as ApprovalPerson }),
  };
}
