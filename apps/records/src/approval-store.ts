import { approvalAfter, ToolError, type ApprovalEvent, type EpochMs, type JsonObject } from '@toolfleet/contracts';
import { parseExact, toExactJson } from '@toolfleet/contracts/json-text';
import { quotaExceeded } from '@toolfleet/contracts/account';
import {
  countsAs,
  type ApprovalAsk,
  type ApprovalAskReply,
  type ApprovalBeginReply,
  type ApprovalDecide,
  type ApprovalDecideReply,
  type ApprovalEnd,
  type ApprovalEndReply,
  type ApprovalList,
  type ApprovalListReply,
  type ApprovalShowReply,
  type ApprovalVote,
  type StoredApproval,
} from '@toolfleet/contracts/approvals';
import type { FleetEvent } from '@toolfleet/contracts/events';
import { openBytes, sealBytes } from '@toolfleet/service';
import { eraseIds, lockRow, newestFirst, ofOwner, ofTenants, type Owner, type Tenants } from '@toolfleet/database';
import { sql, type Updateable } from 'kysely';
import type { BodyStore } from './body-store.js';
import type { EventStore } from './event-store.js';
import { personId, toPerson, type ApprovalGrantStore } from './approval-grant-store.js';
import type { RecordsDb, RecordsTx, RecordTables, RecordsRow } from './tables.js';

type ApprovalRow = RecordsRow<'call_approval'>;
type Tx = RecordsTx & {
  /** What happened in the transaction. */
  events: FleetEvent[];
};

/** The sealed members of a call. */
interface SealedCall {
  arguments: JsonObject;
  request?: object | undefined;
}

/** A decided call that has not begun by then is woken again. */
const WAKE_AGAIN_MS = 10_000;
/** So is a call that runs; the queue and the journal decide whether it still does. */
const RUN_AGAIN_MS = 30_000;
/** So long the journal replays the outcome of an idempotency key (24 h), less a minute for the call itself. */
const REPLAYED_MS = 86_400_000 - 60_000;

/**
 * Questions to people about calls, in the database of the calls. The state of each moves as `APPROVAL_TRANSITIONS` says, in a transaction
 * that holds its row, so one of several racing requests wins. Database failures reject.
 */
export class ApprovalStore {
  constructor(
    private readonly db: RecordsDb,
    private readonly bodies: BodyStore,
    private readonly events: EventStore,
    private readonly grants: ApprovalGrantStore,
    private readonly most: number,
  ) {}

  /** Runs a transaction that stores its events as well, and announces them once it is committed. */
  async #transact<T>(now: EpochMs, work: (tx: Tx) => Promise<T>): Promise<T> {
    const { result, stored } = await this.db.transaction().execute(async (transaction) => {
      const tx = Object.assign(transaction, { events: [] as FleetEvent[] });
      const done = await work(tx);
      return { result: done, stored: await this.events.insert(tx, tx.events, now) };
    });
    this.events.announce(stored);
    return result;
  }

  /**
   * Stores a question, or answers one that is known by its key.
   * @throws ToolError IDEMPOTENCY_MISMATCH for a key that was used for another call, CALL_IN_PROGRESS while its call runs in another
   *   form, QUOTA_EXCEEDED when too many questions of the tenant wait
   */
  async ask(asked: ApprovalAsk, now: EpochMs): Promise<ApprovalAskReply> {
    if (!this.bodies.isOn) return {};
    return this.#transact(now, async (tx) => {
      const known = await this.#find(tx, asked);
      const answer = known && (await this.#answerKnown(tx, known, asked, now));
      if (answer) return answer;
      await this.#requireRoom(tx, asked.requester.tenant_id);
      if (asked.program_id !== undefined) await this.#invalidateOf(tx, asked.program_id, now);
      await this.#insert(tx, asked, now);
      // Another request may have inserted the same question meanwhile.
      const stored = await this.#find(tx, asked);
      return { approval: await this.#shown(tx, stored!) };
    });
  }

  /** The question of this key or call, with its row locked. */
  async #find(tx: Tx, { requester, ask_key, call_id }: ApprovalAsk): Promise<ApprovalRow | undefined> {
    const found = tx.selectFrom('call_approval').select('call_id').where('tenant_id', '=', requester.tenant_id);
    const row = await (
      ask_key === undefined ? found.where('call_id', '=', call_id) : found.where('ask_key', '=', ask_key)
    ).executeTakeFirst();
    return row && this.#locked(tx, row.call_id);
  }

  /** How a question that was asked before answers the call now; undefined: it is asked anew. */
  async #answerKnown(
    tx: Tx,
    known: ApprovalRow,
    asked: ApprovalAsk,
    now: EpochMs,
  ): Promise<ApprovalAskReply | undefined> {
    if (known.fingerprint !== asked.fingerprint)
      throw new ToolError('IDEMPOTENCY_MISMATCH', {
        message: 'This idempotency key was used with another tool, other arguments or another context',
        details: { first_call_id: known.call_id },
      });
    const isAsked = JSON.stringify(known.questions) === JSON.stringify(asked.questions);
    const holds = known.revision === asked.revision && isAsked;
    const isOpen = known.until > now;
    const again = async (event?: ApprovalEvent): Promise<undefined> => {
      if (event) await this.#move(tx, known, event, now);
      await this.#set(tx, known.call_id, { ask_key: null });
    };
    const granted = async (): Promise<ApprovalAskReply> => ({ approval: await this.#shown(tx, known), granted: true });
    switch (known.state) {
      case 'pending':
        if (!isOpen) return again('expire');
        return holds ? { approval: await this.#shown(tx, known) } : again('invalidate');
      case 'approved': {
        if (!holds) return again('invalidate');
        if (known.parked) return granted();
        if (!isOpen) return again('expire');
        await this.#move(tx, known, 'release', now);
        if (!known.keyed) await this.#set(tx, known.call_id, { ask_key: null });
        return granted();
      }
      case 'executing':
        if (holds) return granted();
        throw new ToolError('CALL_IN_PROGRESS', { details: { first_call_id: known.call_id } });
      case 'done':
        return holds && known.keyed && known.ended_at! + REPLAYED_MS > now ? granted() : again();
      case 'rejected':
        return isOpen ? { approval: await this.#shown(tx, known) } : again();
      default:
        return again();
    }
  }

  /** A program that asks something else does not wait for its earlier questions. */
  async #invalidateOf(tx: Tx, programId: string, now: EpochMs): Promise<void> {
    const open = await tx
      .selectFrom('call_approval')
      .select('call_id')
      .where('program_id', '=', programId)
      .where('state', '=', 'pending')
      .execute();
    for (const { call_id } of open) {
      const row = await this.#locked(tx, call_id);
      if (row) await this.#move(tx, row, 'invalidate', now);
    }
  }

  async #requireRoom(tx: Tx, tenantId: string): Promise<void> {
    const { pending } = await tx
      .selectFrom('call_approval')
      .select(sql<number>`count(*)`.as('pending'))
      .where('tenant_id', '=', tenantId)
      .where('state', '=', 'pending')
      .executeTakeFirstOrThrow();
    if (pending >= this.most) throw quotaExceeded('pending_approvals', this.most);
  }

  async #insert(tx: Tx, asked: ApprovalAsk, now: EpochMs): Promise<void> {
    const { requester, request, call_id, program_id, acting_user_id, tool, revision, fingerprint } = asked;
    const { ask_key, keyed, questions, rule, micro_usd, entry_point, until } = asked;
    const { id, key } = await this.bodies.sealingKey(tx, requester.tenant_id, now);
    const sealed: SealedCall = { arguments: asked.arguments, request };
    const { numInsertedOrUpdatedRows: inserted } = await tx
      .insertInto('call_approval')
      .values({
        ...{ call_id, program_id, acting_user_id, tool, revision, fingerprint, ask_key, keyed },
        ...{ questions, rule, micro_usd, entry_point, until },
        tenant_id: requester.tenant_id,
        user_id: requester.user_id,
        key_id: requester.key_id,
        asker: requester.person && personId(requester),
        asker_kind: requester.person?.kind,
        parked: request !== undefined,
        state: 'pending',
        asked_at: now,
        wake_at: until,
        seal_key_id: id,
        sealed: sealBytes(key, toExactJson(sealed), place(requester.tenant_id, asked.call_id)),
      })
      .onConflict((conflict) => conflict.doNothing())
      .executeTakeFirst();
    if (inserted !== 1n) return;
    const { about, data } = toEvent({ ...asked, ...requester }, now);
    const expires_at = new Date(asked.until).toISOString();
    tx.events.push({ ...about, kind: 'approval.asked', data: { ...data, questions: asked.questions, expires_at } });
  }

  /**
   * One approval, with the arguments of its call on request.
   * @param callId of the approval, or of the program that waits for it
   * @param ofCall the newest one that the call waits for
   */
  async show(callId: string, withArguments: boolean, ofCall = false): Promise<ApprovalShowReply> {
    const rows = this.db.selectFrom('call_approval').selectAll();
    const asked = await rows.where('call_id', '=', callId).executeTakeFirst();
    const isFound = asked && !ofCall;
    const newest = isFound
      ? undefined
      : await rows.where('program_id', '=', callId).orderBy('asked_at', 'desc').limit(1).executeTakeFirst();
    const row = newest ?? asked;
    if (!row) return {};
    const opened = withArguments ? await this.#open(this.db, row) : undefined;
    return { approval: await this.#shown(this.db, row), arguments: opened?.arguments };
  }

  /** Approvals that match, the newest first. */
  async list({ tenant_id, states, tool, ...page }: ApprovalList): Promise<ApprovalListReply> {
    let select = this.db.selectFrom('call_approval').selectAll();
    if (tenant_id !== undefined) select = select.where('tenant_id', '=', tenant_id);
    if (states !== undefined) select = select.where('state', 'in', states);
    if (tool !== undefined) select = select.where('tool', '=', tool);
    const { rows, next } = await newestFirst(select, ['asked_at', 'call_id'], page);
    return { approvals: await Promise.all(rows.map((row) => this.#shown(this.db, row))), next };
  }

  /**
   * Stores the decision of a person, and moves the approval when enough have agreed, one has rejected it, or its requester cancels. A
   * person has one vote, whatever credentials it uses. A decision that comes too late changes nothing. The id of a program means its
   * approval if it has asked once: a decision on the newest of several could be one on a question that its user has not seen.
   */
  decide(decided: ApprovalDecide, now: EpochMs): Promise<ApprovalDecideReply> {
    return this.#transact(now, async (tx) => {
      const row = (await this.#locked(tx, decided.call_id)) ?? (await this.#onlyOf(tx, decided.call_id));
      if (!row) return { changed: false, due: false };
      const moved = await this.#decided(tx, row, decided, now);
      const due = moved && row.parked && row.state !== 'pending';
      return { approval: await this.#shown(tx, row), changed: moved, due };
    });
  }

  /** The approval of a program that has asked once, with its row locked. */
  async #onlyOf(tx: Tx, programId: string): Promise<ApprovalRow | undefined> {
    const asked = tx.selectFrom('call_approval').select('call_id').where('program_id', '=', programId);
    const [only, another] = await asked.limit(2).execute();
    return only && !another ? this.#locked(tx, only.call_id) : undefined;
  }

  async #decided(
    tx: Tx,
    row: ApprovalRow,
    { decision, by, note, grant }: ApprovalDecide,
    now: EpochMs,
  ): Promise<boolean> {
    if (row.state === 'pending' && row.until <= now) return this.#move(tx, row, 'expire', now);
    if (decision === 'cancel') return this.#move(tx, row, 'cancel', now);
    if (row.state !== 'pending') return false;
    const vote = {
      decision,
      tenant_id: by.tenant_id,
      user_id: by.user_id,
      key_id: by.key_id ?? null,
      note: note ?? null,
      at: now,
      granted: grant ?? null,
      voter_kind: by.person?.kind ?? null,
      via: by.via ?? null,
      session_id: by.session_id ?? null,
    };
    await tx
      .insertInto('approval_vote')
      .values({ call_id: row.call_id, voter: personId(by), ...vote })
      .onConflict((conflict) => conflict.columns(['call_id', 'voter']).doUpdateSet(vote))
      .execute();
    if (decision === 'reject') return this.#move(tx, row, 'reject', now);
    const { quorum = 1 } = row.rule;
    if ((await this.#votes(tx, row.call_id)).length < quorum) return false;
    await this.#grant(tx, row, now);
    return this.#move(tx, row, 'approve', now);
  }

  /** Stores the grant that those that agreed to a call give with it, if they do. */
  async #grant(tx: Tx, row: ApprovalRow, now: EpochMs): Promise<void> {
    if (!row.rule.grant) return;
    const opened = await this.#open(tx, row);
    row.grant_id = await this.grants.create(tx, row, opened?.arguments, now);
    if (row.grant_id !== undefined) await this.#set(tx, row.call_id, { grant_id: row.grant_id });
  }

  /** Takes a decided call. Its request is absent also when it cannot be read. */
  begin(callId: string, now: EpochMs): Promise<ApprovalBeginReply> {
    return this.#transact(now, async (tx) => {
      const row = await this.#locked(tx, callId);
      if (!row) return {};
      if (!row.parked || row.wake_at === undefined || row.state === 'pending')
        return { approval: await this.#shown(tx, row), ended: true };
      if (row.state === 'approved' && (await this.#isForgotten(tx, row, now))) await this.#move(tx, row, 'expire', now);
      await this.#move(tx, row, 'begin', now);
      const request = (await this.#open(tx, row))?.request;
      return { approval: await this.#shown(tx, row), request };
    });
  }

  /**
   * Whether an approved call may have run before without a trace: the row was restored from a backup, or the fleet was down, and the
   * journal has forgotten the run that followed the approval.
   */
  async #isForgotten(tx: Tx, { call_id, asked_at }: ApprovalRow, now: EpochMs): Promise<boolean> {
    const votes = await this.#votes(tx, call_id);
    return Math.max(asked_at, ...votes.map(({ at }) => at)) + REPLAYED_MS <= now;
  }

  /** Ends the call of an approval: nothing wakes it from now on. */
  end({ call_id, event, code }: ApprovalEnd, now: EpochMs): Promise<ApprovalEndReply> {
    return this.#transact(now, async (tx) => {
      const row = await this.#locked(tx, call_id);
      if (!row || row.wake_at === undefined) return { changed: false };
      await this.#move(tx, row, event, now);
      await this.#set(tx, call_id, { wake_at: null, ended_at: row.ended_at ?? now, code });
      return { changed: true };
    });
  }

  /** Expires due approvals, and takes the parked calls that have to be woken, so that no other caller gets them for some seconds. */
  async due(now: EpochMs, limit: number): Promise<StoredApproval[]> {
    const rows = await this.db
      .selectFrom('call_approval')
      .select('call_id')
      .where('wake_at', '<=', now)
      .orderBy('wake_at')
      .limit(limit)
      .execute();
    const taken: StoredApproval[] = [];
    for (const { call_id } of rows) {
      const approval = await this.#transact(now, (tx) => this.#take(tx, call_id, now));
      if (approval) taken.push(approval);
    }
    return taken;
  }

  async #take(tx: Tx, callId: string, now: EpochMs): Promise<StoredApproval | undefined> {
    const row = await this.#locked(tx, callId);
    if (!row || row.wake_at === undefined || row.wake_at > now) return undefined;
    if (row.state === 'pending' || (row.state === 'approved' && !row.parked)) await this.#move(tx, row, 'expire', now);
    if (!row.parked) return undefined;
    await this.#set(tx, callId, { wake_at: now + (row.state === 'executing' ? RUN_AGAIN_MS : WAKE_AGAIN_MS) });
    return this.#shown(tx, row);
  }

  /** Deletes approvals that ended before `at`, of one tenant or of all except some. */
  async eraseBefore(at: EpochMs, tenants: Tenants): Promise<void> {
    const asked = this.db.selectFrom('call_approval').select('call_id').where('asked_at', '<', at);
    const ended = await asked.where('wake_at', 'is', null).where(ofTenants(tenants)).execute();
    await this.#delete(ended.map(({ call_id }) => call_id));
  }

  /**
   * Deletes the approvals that a tenant, or a user with its keys, asked for, and the votes of the user and its keys; counts the approvals
   * in a dry run.
   * @returns the number of approvals
   */
  async eraseOwner(owner: Owner, dryRun: boolean): Promise<number> {
    const { tenantId, userId } = owner;
    const isOwned = ofOwner(owner, ['user_id', 'acting_user_id']);
    const owned = this.db.selectFrom('call_approval').select('call_id').where(isOwned);
    const ids = (await owned.execute()).map(({ call_id }) => call_id);
    if (dryRun) return ids.length;
    await this.#delete(ids);
    let votes = this.db.deleteFrom('approval_vote').where('tenant_id', '=', tenantId);
    if (userId !== undefined) {
      const person = personId({ tenant_id: tenantId, user_id: userId });
      votes = votes.where((where) => where.or([where('user_id', '=', userId), where('voter', '=', person)]));
      // Calls of other users that count as made by this one. Their keys still tell whose they are.
      const asked = this.db.updateTable('call_approval').where('asker', '=', person);
      await asked.set({ asker: null, asker_kind: null }).execute();
    }
    await votes.execute();
    return ids.length;
  }

  #delete(ids: readonly string[]): Promise<void> {
    return eraseIds(this.db, ['approval_vote', 'call_approval'], 'call_id', ids);
  }

  async #set(tx: Tx, callId: string, changed: Updateable<RecordTables['call_approval']>): Promise<void> {
    await tx.updateTable('call_approval').set(changed).where('call_id', '=', callId).execute();
  }

  /** The row, locked until the end of the transaction. */
  async #locked(tx: Tx, callId: string): Promise<ApprovalRow | undefined> {
    await lockRow(tx, 'call_approval', 'call_id', callId);
    return tx.selectFrom('call_approval').selectAll().where('call_id', '=', callId).executeTakeFirst();
  }

  /** Moves a locked row, and notes in it what comes next. @returns false when the event changes nothing in its state */
  async #move(tx: Tx, row: ApprovalRow, event: ApprovalEvent, now: EpochMs): Promise<boolean> {
    const state = approvalAfter(row.state, event);
    if (state === undefined) return false;
    const isOver = state !== 'approved' && state !== 'executing';
    row.state = state;
    if (isOver) row.ended_at = now;
    // A parked call that was not approved still has to end for its caller. An approval that its caller uses expires.
    // A program whose question does not hold has asked another one.
    if (row.parked && row.program_id !== undefined && event === 'invalidate') row.wake_at = undefined;
    else if (row.parked) row.wake_at = state === 'executing' ? now + RUN_AGAIN_MS : now + WAKE_AGAIN_MS;
    else row.wake_at = isOver ? undefined : row.until;
    await this.#set(tx, row.call_id, { state, ended_at: row.ended_at, wake_at: row.wake_at ?? null });
    if (state !== 'pending' && state !== 'executing' && state !== 'done') {
      const votes = await this.#votes(tx, row.call_id);
      const decided_by = votes.map((vote) => countsAs(vote).user_id);
      const { about, data } = toEvent(row, now);
      const decided = { decision: state, decided_by, note: votes.at(-1)?.note, grant_id: row.grant_id };
      tx.events.push({ ...about, kind: 'approval.decided', data: { ...data, ...decided } });
    }
    return true;
  }

  async #votes(db: RecordsDb, callId: string): Promise<ApprovalVote[]> {
    const rows = await db.selectFrom('approval_vote').selectAll().where('call_id', '=', callId).orderBy('at').execute();
    return rows.map(({ voter, voter_kind, via, session_id, decision, note, at, granted: grant, ...by }) => ({
      ...toPerson(by, voter, voter_kind),
      ...{ via, session_id, decision, note, grant, at },
    }));
  }

  async #open(db: RecordsDb, row: ApprovalRow): Promise<SealedCall | undefined> {
    const { tenant_id, call_id, seal_key_id, sealed } = row;
    const key = await this.bodies.openingKey(db, tenant_id, seal_key_id);
    return key && parseExact<SealedCall>(openBytes(key, sealed, place(tenant_id, call_id))).value;
  }

  async #shown(db: RecordsDb, row: ApprovalRow): Promise<StoredApproval> {
    const { call_id, program_id, acting_user_id, tool, revision, state, questions, rule, parked } = row;
    const { micro_usd, entry_point, asked_at, until, ended_at, code, grant_id } = row;
    return {
      ...{ call_id, program_id, acting_user_id, tool, revision, state, questions, rule, parked },
      ...{ micro_usd, entry_point, asked_at, until, ended_at, code, grant_id },
      requester: toPerson(row, row.asker, row.asker_kind),
      votes: await this.#votes(db, call_id),
    };
  }
}

type AskingCall = Pick<ApprovalRow, 'call_id' | 'tenant_id' | 'tool' | 'user_id'> & {
  program_id?: string | null | undefined;
};

/** What events about one approval have in common. */
function toEvent({ call_id: approval_id, program_id, tenant_id, tool, user_id }: AskingCall, at: EpochMs) {
  const data = { approval_id, call_id: program_id ?? approval_id, tool, user_id };
  return { about: { tenant_id, at, tool, user_id }, data };
}

const place = (tenantId: string, callId: string): string => `${tenantId}/approval/${callId}`;
