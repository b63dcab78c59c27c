import type { Principal } from '@toolfleet/contracts';
import type { Clock } from '@toolfleet/resilience';
import { isOperator, toMaker, type AccessRule, type CallAccess } from '@toolfleet/access';
import { orUnavailable } from '@toolfleet/queue/redis';
import type { RecentCall } from '@toolfleet/contracts/fleet';

/** A stored call and its position in the order of calls. */
export interface StoredRecentCall extends RecentCall {
  /** Increases with time; readers ask for calls after the last cursor they have. */
  cursor: string;
}

/** Which calls to read: those of one tenant, or of the whole fleet. */
export type CallScope = { tenantId: string } | 'fleet';

/** The last calls of all gateways. Losing some is acceptable, delaying a call is not. */
export abstract class RecentCalls {
  /** Stores calls, oldest first. */
  abstract add(calls: readonly RecentCall[]): Promise<void>;
  /**
   * Reads at most `limit` calls, oldest first: those after `cursor`, or without one the last before `before`, or the last.
   */
  abstract read(scope: CallScope, limit: number, cursor?: string, before?: string): Promise<StoredRecentCall[]>;
  /** Removes the calls of a tenant for which `isOwn` is true, or counts them. Returns the number of entries. */
  abstract erase(tenantId: string, isOwn: (call: RecentCall) => boolean, dryRun: boolean): Promise<number>;
}

const STORE = 'The store of recent calls';
/** Interval in which an open stream looks for new calls; people read it. */
const POLL_MS = 500;
const LONGEST_MS = 3_600_000;
/** Most calls per read of a stream; a reader that is further behind catches up over several. */
const MOST_AT_ONCE = 200;
/** Most calls scanned for one page of a caller that may see only some of them. */
const MAX_SCANNED = 5_000;
const PAGE = 500;

/** What a stream yields: new calls, or `quiet` if there were none. */
type FeedNews = StoredRecentCall[] | 'quiet';

/** Recent calls as one caller may see them: those it has access to (`CallAccess`), of its tenant or for operators of the fleet. */
export class RecentCallsFeed {
  constructor(
    /** Undefined: switched off. */
    private readonly calls: RecentCalls | undefined,
    private readonly access: CallAccess,
    private readonly clock: Clock,
  ) {}

  /** Whether calls are recorded at all. */
  get enabled(): boolean {
    return this.calls !== undefined;
  }

  /** Calls after a cursor, or the last ones; oldest first. @throws ToolError SERVICE_UNAVAILABLE */
  async read(caller: Principal, limit: number, cursor?: string): Promise<StoredRecentCall[]> {
    const rule = await this.access.ruleFor(caller);
    return this.#read(caller, limit, (call) => admits(rule, call), cursor);
  }

  /**
   * The record of a call, and those of the calls that its tool made; oldest first, each once. Empty when it is not recorded or the
   * caller has no access to it.
   * @throws ToolError SERVICE_UNAVAILABLE
   */
  async find(caller: Principal, callId: string): Promise<StoredRecentCall[]> {
    const rule = await this.access.ruleFor(caller);
    return this.#read(
      caller,
      MAX_SCANNED,
      (call) => (call.call_id === callId || call.parent_call_id === callId) && admits(rule, call),
    );
  }

  async #read(
    caller: Principal,
    limit: number,
    admitted: (call: RecentCall) => boolean,
    cursor?: string,
  ): Promise<StoredRecentCall[]> {
    if (!this.calls) return [];
    return lastOfEach(await orUnavailable(STORE, this.#page(this.calls, callScope(caller), admitted, limit, cursor)));
  }

  /** Reads pages until `limit` calls are found that are admitted, or `MAX_SCANNED` were scanned. */
  async #page(
    calls: RecentCalls,
    scope: CallScope,
    isAdmitted: (call: RecentCall) => boolean,
    limit: number,
    cursor: string | undefined,
  ): Promise<StoredRecentCall[]> {
    const found: StoredRecentCall[] = [];
    let at: string | undefined;
    let size = Math.min(limit, PAGE);
    for (let looked = 0; looked < MAX_SCANNED && found.length < limit; looked += size, size = PAGE) {
      const page = await (cursor === undefined
        ? calls.read(scope, size, undefined, at)
        : calls.read(scope, size, at ?? cursor));
      const admitted = page.filter(isAdmitted);
      if (cursor === undefined) found.unshift(...admitted);
      else found.push(...admitted);
      if (page.length < size) break;
      at = (cursor === undefined ? page[0] : page.at(-1))?.cursor;
    }
    return cursor === undefined ? found.slice(-limit) : found.slice(0, limit);
  }

  /**
   * Follows the calls after `cursor` until `ends` returns true or an hour has passed.
   */
  async *follow(
    caller: Principal,
    options: { cursor: string | undefined; ends: () => boolean },
  ): AsyncGenerator<FeedNews> {
    const until = this.clock.monotonic() + LONGEST_MS;
    const scope = callScope(caller);
    const rule = await this.access.ruleFor(caller);
    let cursor = options.cursor;
    while (!options.ends() && this.clock.monotonic() < until) {
      const all = (await this.calls?.read(scope, MOST_AT_ONCE, cursor ?? '0-0').catch(() => [])) ?? [];
      cursor = all.at(-1)?.cursor ?? cursor;
      const news = all.filter((call) => admits(rule, call));
      yield news.length > 0 ? news : 'quiet';
      if (all.length < MOST_AT_ONCE) await this.clock.sleep(POLL_MS);
    }
  }
}

/** Each call once, by its last record: a job that ran again and a write that Redis repeated are recorded twice. */
function lastOfEach(calls: readonly StoredRecentCall[]): StoredRecentCall[] {
  const byId = new Map<string, StoredRecentCall>();
  for (const call of calls) {
    byId.delete(call.call_id);
    byId.set(call.call_id, call);
  }
  return [...byId.values()];
}

function admits(rule: AccessRule, { tenant_id: tenantId, tool, key_id: keyId, user_id: userId }: RecentCall): boolean {
  return rule.call({ tenantId, tool, maker: toMaker(keyId === undefined ? { userId } : { keyId, userId }) });
}

const callScope = (caller: Principal): CallScope => (isOperator(caller) ? 'fleet' : { tenantId: caller.tenantId });
