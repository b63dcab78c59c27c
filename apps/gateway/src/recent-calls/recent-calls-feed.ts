import type { Principal } from '@toolfleet/contracts';
import type { Clock } from '@toolfleet/resilience';
import { isOperator } from '../auth/roles.js';
import { makerOf, type AccessRule, type CallAccess } from '../async/call-access.js';
import { reached } from '../engine/reached.js';
import type { CallScope, RecentCall, RecentCalls, StoredRecentCall } from './recent-call.js';

const STORE = 'The store of recent calls';
/** How often an open stream looks for news: it is for people. */
const POLL_MS = 500;
const LONGEST_MS = 3_600_000;
/** Most calls of one look; a reader that is further behind catches up over several. */
const MOST_AT_ONCE = 200;
/** Calls looked through for one page of a caller that sees only some of them. */
const MOST_LOOKED_THROUGH = 5_000;
const PAGE = 500;

/** What a stream yields: calls to show, or nothing for a while. */
export type FeedNews = StoredRecentCall[] | 'quiet';

/** Recent calls as one caller may see them: those of its tenant, for operators those of the fleet, that it has access to. */
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

  /** Calls after a cursor, or the last ones; oldest first. */
  async read(caller: Principal, limit: number, cursor?: string): Promise<StoredRecentCall[]> {
    if (!this.calls) return [];
    const rule = await this.access.ruleOf(caller);
    return reached(STORE, this.#page(this.calls, scopeOf(caller), rule, limit, cursor));
  }

  /** Reads on until `limit` calls are found that the rule admits, within bounds. */
  async #page(
    calls: RecentCalls,
    scope: CallScope,
    rule: AccessRule,
    limit: number,
    cursor: string | undefined,
  ): Promise<StoredRecentCall[]> {
    const found: StoredRecentCall[] = [];
    let at: string | undefined;
    let size = limit;
    for (let looked = 0; looked < MOST_LOOKED_THROUGH && found.length < limit; looked += size, size = PAGE) {
      const page = await (cursor === undefined
        ? calls.read(scope, size, undefined, at)
        : calls.read(scope, size, at ?? cursor));
      const admitted = page.filter((call) => admits(rule, call));
      if (cursor === undefined) found.unshift(...admitted);
      else found.push(...admitted);
      if (page.length < size) break;
      at = (cursor === undefined ? page[0] : page.at(-1))?.cursor;
    }
    return cursor === undefined ? found.slice(-limit) : found.slice(0, limit);
  }

  /**
   * Follows the calls from `cursor` on until `ends` says so or an hour has passed.
   */
  async *follow(
    caller: Principal,
    options: { cursor: string | undefined; ends: () => boolean },
  ): AsyncGenerator<FeedNews> {
    const until = this.clock.monotonic() + LONGEST_MS;
    const scope = scopeOf(caller);
    const rule = await this.access.ruleOf(caller);
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

function admits(rule: AccessRule, { tenant_id: tenantId, tool, key_id: keyId, user_id: userId }: RecentCall): boolean {
  return rule.call({ tenantId, tool, maker: makerOf(keyId === undefined ? { userId } : { keyId, userId }) });
}

const scopeOf = (caller: Principal): CallScope => (isOperator(caller) ? 'fleet' : { tenantId: caller.tenantId });
