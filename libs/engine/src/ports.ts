import type {
  CallResult,
  CallState,
  EpochMs,
  ErrorClass,
  ErrorCode,
  JsonObject,
  MicroUsd,
  Milliseconds,
} from '@toolfleet/contracts';
import type {
  BudgetLimitsReply,
  BudgetScopes,
  ReserveAnswer,
  ReserveRequest,
  SettleRequest,
} from '@toolfleet/contracts/budget';
import type { ExecResponse } from '@toolfleet/contracts/execution';
import type { Binding, RegisteredTool } from '@toolfleet/contracts/tool-definition';
import type { BreakerMap, Clock, Rate, RateDecision } from '@toolfleet/resilience';
import type { Call, CallTrace } from './call.js';
import type { EngineSettings } from './settings.js';

/** What may be answered at once or later; the engine awaits only what is a promise. */
export type Answer<T> = T | Promise<T>;

/** The read view of definitions. */
export abstract class ToolCatalog {
  /** The tool of that name or alias as this tenant sees it; undefined when there is none. */
  abstract resolve(name: string, tenantId: string, signal: AbortSignal): Answer<RegisteredTool | undefined>;
}

/** What a policy decides on: the call with its coerced arguments. */
export interface PolicyRequest {
  call: CallTrace;
  tool: RegisteredTool;
  arguments: JsonObject;
}

/** `ask`: what a person has to agree to before the call runs. `allowed: false` carries the messages of every rule that denies. */
export type PolicyResult = { allowed: true; ask?: string[] } | { allowed: false; reasons: string[] };

/** Rules written as data. An evaluation error is the adapter's to turn into a denial. */
export abstract class PolicyPort {
  abstract decide(question: PolicyRequest): Answer<PolicyResult>;
}

/** Token buckets by key, shared by all replicas. */
export abstract class RateLimiter {
  /** Takes one token. Never throws: when the store is away a local share of the rate decides. */
  abstract take(key: string, rate: Rate): Answer<RateDecision>;
  /** Tokens left, none taken. */
  abstract peek(key: string, rate: Rate): Answer<number>;
}

/** Money and tokens, held before a call and settled after it. */
export abstract class BudgetPort {
  /** @throws ToolError BUDGET_UNAVAILABLE: the engine fails closed */
  abstract reserve(ask: ReserveRequest, signal: AbortSignal): Answer<ReserveAnswer>;
  /** Sent before the reply leaves, confirmed and repeated in the background: never throws, never waits. */
  abstract settle(ask: SettleRequest): void;
  /** Gives a reservation back whole; as `settle`, never throws. */
  abstract release(callId: string, scopes: BudgetScopes): void;
  /** What is left, for a dry run and for tools that stop by themselves. */
  abstract limits(scopes: BudgetScopes, signal: AbortSignal): Answer<BudgetLimitsReply>;
}

/** A stored result and its age. */
export interface CachedResult {
  result: CallResult;
  storedAt: EpochMs;
}

/** Successful results of idempotent calls. Failures of the store are misses: never throws. */
export abstract class ResultCache {
  /** A result that is still fresh. `shared: false` asks this process only: the work is cheaper than a look elsewhere. */
  abstract get(key: string, shared: boolean): Answer<CachedResult | undefined>;
  /** A result that may be stale but not older than `staleMs` of its `set`. */
  abstract getStale(key: string): Answer<CachedResult | undefined>;
  abstract set(key: string, result: CallResult, ages: CacheAges): void;
}

/** How long a result may stand for a call, and who gets to see it. */
export interface CacheAges {
  freshMs: Milliseconds;
  staleMs: Milliseconds;
  /** False: kept in this process only. */
  shared: boolean;
  /** Whose quota of kept results a shared entry counts against. */
  tenantId: string;
}

/** What the journal knows about an idempotency key. */
export type KeyedCall =
  | { kind: 'unknown' }
  /** The first call with this key has ended; its outcome is replayed. */
  | { kind: 'finished'; callId: string; outcome: CallResult }
  | { kind: 'running'; callId: string; retryAfterMs: Milliseconds }
  /** Same key, other tool, arguments or context. */
  | { kind: 'mismatch'; callId: string };

/** One call as it enters the journal. */
export interface JournalEntryRequest {
  callId: string;
  tenantId: string;
  tool: string;
  deadlineAt: EpochMs;
  /** True: another attempt may begin after a claim (idempotent tools). */
  repeatable: boolean;
  /** An earlier run may have begun: without a record, a call that is not repeatable is entered as `outcome_unknown`. */
  mayHaveBegun?: boolean;
  /** Unique within the tenant (`CallIdentity.idempotencyKey`). */
  idempotencyKey?: string;
  /** SHA-256 of what the tool can observe (`CallIdentity.fingerprint`); present with a key. */
  fingerprint?: string;
}

/** Answer to a call that enters the journal. */
export type Acceptance =
  | { kind: 'accepted'; fence: number }
  /** This very call was claimed before and must not begin again. */
  | { kind: 'claimed'; state: CallState }
  | Exclude<KeyedCall, { kind: 'unknown' }>;

/** Record of calls whose effect must not begin twice; libs/journal has the adapters. */
export abstract class CallJournal {
  /** Looks an idempotency key up (`CallIdentity.idempotencyKey`), storing nothing. */
  abstract find(tenantId: string, idempotencyKey: string, fingerprint: string): Promise<KeyedCall>;
  /** Enters a call before each attempt; the same call may enter again. Of two calls with one key, one is accepted. */
  abstract accept(ask: JournalEntryRequest): Promise<Acceptance>;
  /** For the hop: raises the fence, so that another executor may get the call; refused once the effect may have begun. */
  abstract bump(callId: string): Promise<{ fence: number } | { refused: CallState }>;
  /** Stores the outcome of the call. `current`: this gateway owns the call and has dropped answers of older fences. */
  abstract finish(callId: string, fence: number | 'current', outcome: CallResult): Promise<boolean>;
  /** Takes a call back that no executor has claimed, and frees its key; answers the state it is in afterwards. */
  abstract withdraw(callId: string, as: 'cancelled' | 'expired'): Promise<CallState | undefined>;
}

/** Runs one attempt for one kind of binding. */
export abstract class Executor {
  /**
   * Must stop its work when `call.signal` is aborted.
   * @throws ToolError for what kept the attempt from running (EXECUTOR_UNAVAILABLE, QUEUE_FULL, …); with
   * `details.started === false` when it provably never began
   */
  abstract execute(call: Call): Promise<ExecResponse>;
}

/** One line per call, whatever became of it. */
export interface AuditRecord {
  call: CallTrace;
  ok: boolean;
  durationMs: Milliseconds;
  microUsd: MicroUsd;
  /** Time in queues and executors; what is left of `durationMs` is the engine's own. */
  executeMs?: Milliseconds;
  /** Where the time went; absent for calls that were refused. */
  timing?: CallResult['timing'];
  provenance?: string;
  attempts: number;
  code?: ErrorCode;
  errorType?: ErrorClass;
  error?: string;
}

/** Structured log of calls. */
export abstract class Audit {
  abstract finished(record: AuditRecord): void;
  /** A retry is about to be waited for. */
  retrying(_event: {
    tool: string;
    callId: string;
    attempt: number;
    maxAttempts: number;
    delayMs: Milliseconds;
    error: string;
    /** What the caller sent, so that a log can leave it out of the error. */
    rawArguments: JsonObject;
  }): void {}
}

/** A running span. */
export interface CallSpan {
  set(attributes: Record<string, string | number | boolean>): void;
}

/** Spans. */
export abstract class Tracer {
  /** Runs `work` inside a span that ends with it; `work` sets the final attributes before it settles. */
  abstract span<T>(
    name: string,
    attributes: Record<string, string | number | boolean>,
    work: (span: CallSpan) => Promise<T>,
  ): Promise<T>;
}

/** Figures of calls; every method may be left as it is. */
export abstract class Meter {
  finished(_record: AuditRecord): void {}
  rateLimited(_tool: string): void {}
  tokensAvailable(_tool: string, _tokens: number): void {}
  cacheLookup(_tool: string, _outcome: 'hit' | 'miss' | 'coalesced'): void {}
  retried(_tool: string): void {}
  outputMismatched(_tool: string): void {}
  fellBack(_tool: string, _kind: 'stale_cache' | 'stub_data' | 'graceful_error'): void {}
}

/** Results of a session's calls, for history dedupe. */
export abstract class HistoryStore {
  abstract get(sessionKey: string, callKey: string): Answer<CallResult | undefined>;
  abstract put(sessionKey: string, callKey: string, result: CallResult, ttlMs: Milliseconds): void;
}

/** Everything the engine needs from outside. */
export interface EnginePorts {
  catalog: ToolCatalog;
  policy: PolicyPort;
  cache: ResultCache;
  rateLimiter: RateLimiter;
  budget: BudgetPort;
  journal: CallJournal;
  /** @throws ToolError EXECUTOR_UNAVAILABLE when no executor serves the binding */
  executorFor(binding: Binding): Executor;
  /** Breakers per tool (`new BreakerMap(ERROR_RATE_RULE, clock, onTransition)`). */
  breakers: BreakerMap;
  audit: Audit;
  tracer: Tracer;
  meter: Meter;
  history: HistoryStore;
  clock: Clock;
  settings: EngineSettings;
}
