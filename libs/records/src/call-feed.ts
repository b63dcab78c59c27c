import { toMaker, ToolError, type Principal } from '@toolfleet/contracts';
import type { RecordsList, RecordsListReply, StoredCall } from '@toolfleet/contracts/records';
import type { Clock } from '@toolfleet/resilience';
import { EVERY_TENANT, hasRight, requireRight, type AccessRule, type CallAccess } from '@toolfleet/access';
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

/** What a stream yields: new calls, or `quiet` if there were none. */
type FeedNews = StoredCall[] | 'quiet';

/** What a caller asks for. */
type CallQuery = Omit<RecordsList, 'limit'> & { limit: number };

/** Finished calls as one caller may see them: those it has access to (`CallAccess`), of its tenant or for operators of the fleet. */
export class CallFeed {
  constructor(
    /** Undefined: switched off. */
    private readonly records: Pick<CallRecords, 'list'> | undefined,
    private readonly access: CallAccess,
    private readonly clock: Clock,
  ) {}

  /** Whether calls are recorded at all. */
  get enabled(): boolean {
    return this.records !== undefined;
  }

  /**
   * Calls that match, oldest first: those after a cursor, else the last ones.
   * @throws ToolError SERVICE_UNAVAILABLE; that of `requireRight` for sums, which include calls that other callers have no access to
   */
  async read(caller: Principal, query: CallQuery): Promise<RecordsListReply> {
    if (!this.records) return { calls: [] };
    const scoped = hasRight(caller, 'all_calls', EVERY_TENANT) ? query : { ...query, tenant_id: caller.tenantId };
    if (hasRight(caller, 'all_calls')) {
      const { calls, ...rest } = await this.records.list(scoped);
      return { calls: lastOfEach(calls), ...rest };
    }
    if (query.group_by) requireRight(caller, 'all_calls', 'Summing calls');
    const rule = await this.access.ruleFor(caller);
    const { calls, next } = await page(this.records, rule, scoped);
    return { calls: lastOfEach(calls), next };
  }

  /**
   * The record of a call.
   * @throws ToolError NOT_FOUND when it is not recorded or the caller has no access to it; SERVICE_UNAVAILABLE
   */
  async one(caller: Principal, callId: string): Promise<StoredCall> {
    const [call] = await this.#recordsOf(caller, callId);
    return call;
  }

  /**
   * The record of a call, and its later ones with those of the calls that its tool made; oldest first, each once.
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
    const tenant = hasRight(caller, 'all_calls', EVERY_TENANT) ? {} : { tenant_id: caller.tenantId };
    const rule = await this.access.ruleFor(caller);
    let after = options.cursor;
    while (!options.ends() && this.clock.monotonic() < until) {
      const query = { ...tenant, limit: MOST_AT_ONCE, ...(after !== undefined && { after }) };
      const { calls: all } = (await this.records?.list(query).catch(() => undefined)) ?? { calls: [] };
      after = all.at(-1)?.cursor ?? after;
      const news = all.filter((call) => admits(rule, call));
      yield news.length > 0 ? news : 'quiet';
      if (all.length < MOST_AT_ONCE) await this.clock.sleep(POLL_MS);
    }
  }
}

/** Reads on until `limit` calls are found that are admitted, or `MAX_SCANNED` were read. */
async function page(
  records: Pick<CallRecords, 'list'>,
  rule: AccessRule,
  { limit, after, before, ...query }: CallQuery,
): Promise<RecordsListReply> {
  const direction = after === undefined ? 'before' : 'after';
  const found: StoredCall[] = [];
  let next = after ?? before;
  let size = Math.min(limit, PAGE);
  for (let scanned = 0; scanned < MAX_SCANNED && found.length < limit; scanned += size, size = PAGE) {
    const read = await records.list({ ...query, [direction]: next, limit: size });
    const admitted = read.calls.filter((call) => admits(rule, call));
    // In the order of the search.
    found.push(...(direction === 'after' ? admitted : admitted.toReversed()));
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

function admits(rule: AccessRule, { tenant_id: tenantId, tool, key_id: keyId, user_id: userId }: StoredCall): boolean {
  return rule.call({ tenantId, tool, maker: toMaker(keyId === undefined ? { userId } : { keyId, userId }) });
}
