import type { CallStages } from '@toolfleet/contracts/fleet';
import type { Binding } from '@toolfleet/contracts/tool-definition';
import type { Principal } from '@toolfleet/contracts';
import type { Clock } from '@toolfleet/resilience';
import type { CallStatus } from '../engine/call-telemetry.js';
import { isOperator } from '../auth/roles.js';
import { toMaker, type AccessRule, type CallAccess } from '../auth/call-access.js';
import { orUnavailable } from '../engine/store-health.js';

/** An attempt that failed and was made again. */
export interface RetriedAttempt {
  /** Counted from 1. */
  attempt: number;
  /** Message of its failure, without values that the caller sent. */
  error: string;
  /** Wait before the next attempt. */
  delay_ms: number;
}

/** A finished call as operators' views show it, without arguments and results. */
export interface RecentCall {
  call_id: string;
  /** The call of the tool that made this one. */
  parent_call_id?: string;
  /** Instant of its end, epoch ms. */
  ended_at: number;
  tenant_id: string;
  user_id: string;
  /** Id of the API key that made it; absent for calls without one. */
  key_id?: string;
  tool: string;
  /** Kind of binding; absent if the tool was not found. */
  kind?: Binding['kind'];
  door: string;
  origin: string;
  status: CallStatus;
  code?: string;
  /** Message of the failure, without values that the caller sent. */
  error?: string;
  provenance?: string;
  attempts: number;
  /** The attempts before the last one; absent when there were none. */
  retried?: RetriedAttempt[];
  duration_ms: number;
  stages: CallStages;
  cost_usd: number;
  trace_id?: string;
}

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
