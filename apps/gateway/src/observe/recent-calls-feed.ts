import { ToolError, type Principal } from '@toolfleet/contracts';
import type { Clock } from '@toolfleet/resilience';
import { isOperator } from '../auth/roles.js';
import { reached } from '../stores/reached.js';
import type { CallScope, RecentCalls, StoredRecentCall } from './recent-call.js';

const STORE = 'The store of recent calls';
/** How often an open stream looks for news: it is for people. */
const POLL_MS = 500;
/** The credential of an open stream is proven again this often: a revoked key is out within 5 s everywhere. */
const PROVE_EVERY_MS = 4_000;
const LONGEST_MS = 3_600_000;
/** Most calls of one look; a reader that is further behind catches up over several. */
const MOST_AT_ONCE = 200;
/** Open streams of one gateway; each costs two small reads a second. */
const MOST_STREAMS = 200;

/** What a stream yields: calls to show, or nothing for a while. */
export type FeedNews = StoredRecentCall[] | 'quiet';

/** Recent calls as one caller may see them: those of its tenant, for operators those of the fleet. */
export class RecentCallsFeed {
  #open = 0;

  constructor(
    /** Undefined: switched off. */
    private readonly calls: RecentCalls | undefined,
    private readonly clock: Clock,
  ) {}

  /** Whether calls are recorded at all. */
  get enabled(): boolean {
    return this.calls !== undefined;
  }

  /** Calls after a cursor, or the last ones; oldest first. */
  async read(caller: Principal, limit: number, cursor?: string): Promise<StoredRecentCall[]> {
    if (!this.calls) return [];
    return reached(STORE, this.calls.read(scopeOf(caller), limit, cursor));
  }

  /**
   * Follows the calls from `cursor` on until `ends` says so or an hour has passed.
   * @throws ToolError QUEUE_FULL when too many are watching, UNAUTHENTICATED once `prove` refuses
   */
  async *follow(
    caller: Principal,
    options: { cursor: string | undefined; ends: () => boolean; prove: () => Promise<Principal> },
  ): AsyncGenerator<FeedNews> {
    if (this.#open >= MOST_STREAMS)
      throw new ToolError('QUEUE_FULL', { message: `${MOST_STREAMS} event streams are open`, retryAfterMs: 5_000 });
    this.#open += 1;
    try {
      const until = this.clock.monotonic() + LONGEST_MS;
      let provenAt = this.clock.monotonic();
      let scope = scopeOf(caller);
      let cursor = options.cursor;
      while (!options.ends() && this.clock.monotonic() < until) {
        if (this.clock.monotonic() - provenAt > PROVE_EVERY_MS) {
          scope = scopeOf(await options.prove());
          provenAt = this.clock.monotonic();
        }
        const news = (await this.calls?.read(scope, MOST_AT_ONCE, cursor ?? '0-0').catch(() => [])) ?? [];
        cursor = news.at(-1)?.cursor ?? cursor;
        yield news.length > 0 ? news : 'quiet';
        if (news.length < MOST_AT_ONCE) await this.clock.sleep(POLL_MS);
      }
    } finally {
      this.#open -= 1;
    }
  }
}

const scopeOf = (caller: Principal): CallScope => (isOperator(caller) ? 'fleet' : { tenantId: caller.tenantId });
