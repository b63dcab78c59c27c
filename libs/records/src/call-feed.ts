import { ToolError, type Principal } from '@toolfleet/contracts';
import type { RecordsList, RecordsListReply, StoredCall } from '@toolfleet/contracts/records';
import type { Clock } from '@toolfleet/resilience';
import { EVERY_TENANT, hasRight, requireRight, toSeenCall, type CallSight, type SightRule } from '@toolfleet/access';
import { ownCalls } from '@toolfleet/engine/access';
import type { CallRecorder } from './call-recorder.js';
import type { CallRecords } from './call-records.js';

/** Interval in which an open stream looks for new calls; people read it. */
const POLL_MS = 500;
const LONGEST_MS = 3_600_000;
/** Most calls per read of a stream; a reader that is further behind catches up over several. */
const MOST_AT_ONCE = 200;
/** Most calls read for one page of a caller that may see only some of them; `next` goes on from there. */
const MAX_SCANNED = 5_000;
const PAGE = 500;
/** Calls of a program that are shown with it. */
const MAX_MADE = 500;

/** Items of a stream: new calls, or `quiet` if there were none. */
type FeedNews = StoredCall[] | 'quiet';

/** The request of a caller. */
type CallQuery = Omit<RecordsList, 'limit'> & { limit: number };

/** Finished calls that a caller sees (`CallSight`), of its tenant or for operators of the fleet. */
export class CallFeed {
  constructor(
    /** Undefined: switched off. */
    private readonly records: Pick<CallRecords, 'list'> | undefined,
    /** Sends the calls of this process before they are read. */
    private readonly recorder: Pick<CallRecorder, 'sendNow'> | undefined,
    private readonly sight: CallSight,
    private readonly clock: Clock,
  ) {}

  /** Whether calls are recorded at all. */
  get enabled(): boolean {
    return this.records !== undefined;
  }

  /**
   * Calls that match, oldest first: those after a cursor, else the last ones, with all that ended on this gateway before the question.
   * @throws ToolError SERVICE_UNAVAILABLE; of `requireRight` for sums with calls of others
   */
  async read(caller: Principal, query: CallQuery): Promise<RecordsListReply> {
    if (!this.records) return { calls: [] };
    if (query.group_by) requireRight(caller, 'all_calls', 'Summing calls');
    if (query.after === undefined && query.before === undefined) await this.recorder?.sendNow();
    const rule = await this.sight.rule(caller);
    const scoped = scopeOf(caller, rule, query);
    const { calls, ...rest } = hasRight(caller, 'all_calls')
      ? await this.records.list(scoped)
      : await page(this.records, rule, scoped);
    return { calls: lastOfEach(calls), ...rest };
  }

  /**
   * The record of a call.
   * @throws ToolError NOT_FOUND when it is not recorded or the caller does not see it; SERVICE_UNAVAILABLE
   */
  async one(caller: Principal, callId: string): Promise<StoredCall> {
    const [call] = await this.#recordsOf(caller, callId);
    return call;
  }

  /**
   * The record of a call, and its later ones with the records of its tool's calls; oldest first, each once.
   * @throws ToolError as `one`
   */
  async withMade(caller: Principal, callId: string): Promise<{ call: StoredCall; made: StoredCall[] }> {
    const [[call, ...later], { calls: made }] = await Promise.all([
      this.#recordsOf(caller, callId),
      this.read(caller, { parent_call_id: callId, limit: MAX_MADE }),
    ]);
    return { call, made: [...later, ...made] };
  }

  async #recordsOf(caller: Principal, callId: string): Promise<[StoredCall, ...StoredCall[]]> {
    const { calls } = await this.read(caller, { call_id: callId, limit: MAX_MADE });
    const [first, ...later] = calls.filter((call) => call.call_id === callId);
    if (!first) throw new ToolError('NOT_FOUND', { message: `No finished call '${callId}'` });
    return [first, ...later];
  }

  /**
   * Follows the calls after `cursor`, or from the last ones, until `ends` returns true or an hour has passed.
   */
  async *follow(
    caller: Principal,
    options: { cursor: string | undefined; ends: () => boolean },
  ): AsyncGenerator<FeedNews> {
    const until = this.clock.monotonic() + LONGEST_MS;
    let after = options.cursor;
    while (!options.ends() && this.clock.monotonic() < until) {
      // Definitions change while the stream is open.
      const rule = await this.sight.rule(caller);
      const query = scopeOf(caller, rule, { limit: MOST_AT_ONCE, after });
      const { calls: all } = (await this.records?.list(query).catch(() => undefined)) ?? { calls: [] };
      after = all.at(-1)?.cursor ?? after;
      const news = all.filter((call) => sees(rule, call));
      yield news.length > 0 ? news : 'quiet';
      if (all.length < MOST_AT_ONCE) await this.clock.sleep(POLL_MS);
    }
  }
}

/** The calls to look through for those that the caller sees. */
function scopeOf(caller: Principal, rule: SightRule, query: CallQuery): CallQuery {
  if (hasRight(caller, 'all_calls', EVERY_TENANT)) return query;
  const scoped = { ...query, tenant_id: caller.tenantId };
  if (!rule.isOwnOnly) return scoped;
  const owner = ownCalls(caller);
  // The calls of a user are found by an index.
  const isUser = owner.key_id === undefined && query.user_id === undefined;
  return isUser ? { ...scoped, user_id: owner.user_id } : { ...scoped, owner };
}

/** Reads on until `limit` calls are found that the caller sees, or `MAX_SCANNED` were read. */
async function page(
  records: Pick<CallRecords, 'list'>,
  rule: SightRule,
  { limit, after, before, ...query }: CallQuery,
): Promise<RecordsListReply> {
  const direction = after === undefined ? 'before' : 'after';
  const found: StoredCall[] = [];
  let next = after ?? before;
  let size = Math.min(limit, PAGE);
  for (let scanned = 0; scanned < MAX_SCANNED && found.length < limit; scanned += size, size = PAGE) {
    const read = await records.list({ ...query, [direction]: next, limit: size });
    const seen = read.calls.filter((call) => sees(rule, call));
    // In the order of the search.
    found.push(...(direction === 'after' ? seen : seen.toReversed()));
    ({ next } = read);
    if (next === undefined) break;
  }
  if (found.length > limit) next = found[limit - 1]!.cursor;
  const calls = found.slice(0, limit);
  return { calls: direction === 'after' ? calls : calls.toReversed(), next };
}

/** Each call once, by its last record: a job that ran again is recorded twice. */
function lastOfEach(calls: readonly StoredCall[]): StoredCall[] {
  const byId = new Map<string, StoredCall>();
  for (const call of calls) {
    const key = `${call.tenant_id} ${call.call_id}`;
    byId.delete(key);
    byId.set(key, call);
  }
  return [...byId.values()];
}

const sees = (rule: SightRule, call: StoredCall): boolean => rule.of(toSeenCall(call)) !== 'none';
