import type { EpochMs, Milliseconds, Principal } from '@toolfleet/contracts';
import { taskWords } from './search/tool-words.js';
import { RecentMap, type Clock } from '@toolfleet/resilience';
import { toMaker } from '@toolfleet/access';
import type { FinishedCall } from '@toolfleet/contracts/records';
import type { LearnedCall, RedisSearchHistory, SearchRecord } from './redis-search-history.js';

/** Longest time from a search to a call that it led to. */
const FOLLOWS_MS = 10 * 60_000;
/** Tools learned from one search. */
const MAX_TOOLS = 3;
/** Learned calls of one caller; its newest replace its oldest, never other callers'. */
const MAX_LEARNED = 50;
/** Least similarity (shared words / all words) of a search from which a task may learn. */
const LEAST_SIMILAR = 0.4;
/** Callers that together give a tool its full weight: one caller alone cannot. */
const FULL_CALLERS = 3;
/** Age at which a gateway reads the history of a tenant again. */
const REFRESH_MS = 60_000;
const MAX_TENANTS = 500;

interface KnownTenant {
  learned: ReadonlyMap<string, readonly LearnedCall[]>;
  readAt: number;
}

interface HistoryDeps {
  store: RedisSearchHistory;
  /** The newest calls of a tenant, oldest first. */
  finishedCalls(tenantId: string): Promise<readonly FinishedCall[]>;
  clock: Clock;
  refreshMs?: Milliseconds;
}

/**
 * Which tools were called after which searches, tenant by tenant. Searches are kept with their words hashed; the calls come from the record
 * of calls that is kept anyway, so that calls do not take longer. From time to time a search compares both in the background. No search
 * waits for the comparison or fails because of it.
 */
export class SearchHistory {
  readonly #tenants = new RecentMap<string, KnownTenant>({ max: MAX_TENANTS });

  constructor(private readonly deps: HistoryDeps) {}

  /**
   * Tools that were called after similar tasks, with weights up to 1: the caller's own calls count in full, others' by the number
   * of callers. Another key therefore cannot outweigh several callers, however often it searches.
   */
  called(principal: Principal, task: string): ReadonlyMap<string, number> {
    const { tenantId } = principal;
    const known = this.#tenants.get(tenantId);
    if (!known || this.deps.clock.monotonic() - known.readAt > (this.deps.refreshMs ?? REFRESH_MS))
      this.#refresh(tenantId, known);
    return known ? weigh(known.learned, toMaker(principal), taskWords(task, tenantId)) : new Map();
  }

  /** Keeps a search until its calls are known. */
  searched(principal: Principal, task: string, found: readonly string[]): void {
    const { tenantId } = principal;
    const words = taskWords(task, tenantId);
    if (words.length === 0 || found.length === 0) return;
    const search = { at: this.deps.clock.now(), caller: toMaker(principal), words, found: [...found] };
    void this.deps.store.addSearch(tenantId, search).catch(() => undefined);
  }

  /** Forgets a tenant or some of its callers. @returns how many entries were removed, or would be */
  async erase(tenantId: string, callers: readonly string[] | undefined, dryRun: boolean): Promise<number> {
    if (!dryRun) this.#tenants.delete(tenantId);
    return this.deps.store.erase(tenantId, callers, dryRun);
  }

  #refresh(tenantId: string, known: KnownTenant | undefined): void {
    // Set before it is read, so that concurrent searches do not read it again; a failed read is repeated after the interval.
    const readAt = this.deps.clock.monotonic();
    this.#tenants.set(tenantId, { learned: known?.learned ?? new Map(), readAt });
    this.#learn(tenantId).then(
      (learned) => this.#tenants.set(tenantId, { learned, readAt }),
      () => undefined,
    );
  }

  async #learn(tenantId: string): Promise<Map<string, LearnedCall[]>> {
    const { store } = this.deps;
    const learned = await store.learned(tenantId);
    if (!(await store.mayLearn(tenantId))) return learned;
    const [searches, calls] = await Promise.all([store.searches(tenantId), this.deps.finishedCalls(tenantId)]);
    for (const [caller, lessons] of lessonsOf(searches, calls)) {
      const before = learned.get(caller) ?? [];
      const isNew = (one: LearnedCall) => !before.some((other) => isSame(one, other));
      const fresh = lessons.filter(isNew);
      if (fresh.length === 0) continue;
      const kept = [...fresh.toReversed(), ...before].slice(0, MAX_LEARNED);
      learned.set(caller, kept);
      await store.teach(tenantId, caller, kept);
    }
    return learned;
  }
}

/** Learns the tools that a search found and that its caller called successfully before its next search. */
export function lessonsOf(
  searches: readonly SearchRecord[],
  calls: readonly FinishedCall[],
): Map<string, LearnedCall[]> {
  const lessons = new Map<string, LearnedCall[]>();
  for (const [caller, own] of Map.groupBy(searches, (search) => search.caller)) {
    const made = calls.filter((call) => call.status === 'success' && callerOf(call) === caller);
    for (const [index, { at, words, found }] of own.entries()) {
      const until = Math.min(at + FOLLOWS_MS, own[index + 1]?.at ?? Number.POSITIVE_INFINITY);
      const followed = made
        .filter((call) => startOf(call) >= at && startOf(call) < until && found.includes(call.tool))
        .map((call) => call.tool);
      const known = lessons.get(caller) ?? [];
      for (const tool of [...new Set(followed)].slice(0, MAX_TOOLS)) {
        const lesson = { words, tool };
        if (!known.some((other) => isSame(lesson, other))) known.push(lesson);
      }
      if (known.length > 0) lessons.set(caller, known);
    }
  }
  return lessons;
}

/** The tools that callers of a tenant called after searches like this one, with weights up to 1. */
export function weigh(
  learned: ReadonlyMap<string, readonly LearnedCall[]>,
  caller: string,
  words: readonly string[],
): Map<string, number> {
  const weights = new Map<string, number>();
  const wanted = new Set(words);
  for (const [teacher, calls] of learned) {
    const best = new Map<string, number>();
    for (const call of calls) {
      const similarity = similar(wanted, call.words);
      if (similarity >= LEAST_SIMILAR) best.set(call.tool, Math.max(best.get(call.tool) ?? 0, similarity));
    }
    for (const [tool, similarity] of best)
      weights.set(tool, (weights.get(tool) ?? 0) + (teacher === caller ? similarity : similarity / FULL_CALLERS));
  }
  return new Map([...weights].map(([tool, weight]) => [tool, Math.min(1, weight)]));
}

function similar(wanted: ReadonlySet<string>, words: readonly string[]): number {
  const shared = words.filter((word) => wanted.has(word)).length;
  return shared / (wanted.size + words.length - shared);
}

const isSame = (a: LearnedCall, b: LearnedCall): boolean => a.tool === b.tool && a.words.join() === b.words.join();
const callerOf = ({ key_id: keyId, user_id: userId }: FinishedCall): string => toMaker({ keyId, userId });
const startOf = ({ ended_at: endedAt, duration_ms: durationMs }: FinishedCall): EpochMs => endedAt - durationMs;
