import {
  ToolError,
  type RequiredApproval,
  type CallRequest,
  type CallResult,
  type EpochMs,
  type ErrorClass,
  type ErrorCode,
  type Json,
  type JsonObject,
  type MicroUsd,
  type Milliseconds,
  type Principal,
  type ProgramState,
  type Succeeded,
} from '@toolfleet/contracts';
import type {
  BudgetLimits,
  BudgetLimitsReply,
  BudgetScopes,
  ReserveAnswer,
  ReserveRequest,
  SettleRequest,
} from '@toolfleet/contracts/budget';
import type { ExecResponse } from '@toolfleet/contracts/execution';
import type { Binding, RegisteredTool, ToolSource } from '@toolfleet/contracts/tool-definition';
import type { ToolView } from '@toolfleet/contracts/toolset';
import type { UserAuth } from '@toolfleet/contracts/user-auth';
import type { Journal } from '@toolfleet/journal';
import type { BreakerMap, Clock, Rate, RateDecision } from '@toolfleet/resilience';
import type { ArgumentRules, ReadArguments } from '@toolfleet/bounded-schema';
import type { SelectExpression } from '@toolfleet/bounded-schema/select';
import type { ActiveCall, Allowed, Call, CacheVersion } from './call.js';
import type { KeptHandle } from './result-handle.js';
import type { Interception, Interceptor } from './interceptor.js';
import type { EngineSettings } from './settings.js';

/** The parts of a call that messages and records may show, and the definition that tells which names are not the caller's. */
export interface ShownCall {
  request: Pick<CallRequest, 'target' | 'input'>;
  /** Absent: there is no such tool. */
  tool?: Pick<RegisteredTool, 'name' | 'input_schema'>;
}

/** A result that a port may give synchronously. The engine awaits promises only: an await costs a turn of the event loop. */
export type MaybePromise<T> = T | Promise<T>;

/** Everything the engine needs from outside. */
export interface EnginePorts {
  catalog: ToolCatalog;
  policy: PolicyPort;
  /** Absent: a call that needs an approval is refused, unless its entry point asks for it. */
  approvals?: ApprovalPort | undefined;
  /** Steps of the operator, outermost first. */
  interceptors: readonly Interceptor[];
  cache: ResultCache;
  rateLimiter: RateLimiter;
  budget: BudgetPort;
  /** The gateway's part of the journal; executors have the rest. */
  journal: Pick<Journal, 'find' | 'accept' | 'finish' | 'withdraw' | 'awaitInput'>;
  /** @throws ToolError EXECUTOR_UNAVAILABLE when no executor serves the binding */
  executorFor(binding: Binding): Executor;
  /** Breakers by tool. */
  breakers: BreakerMap;
  audit: Audit;
  tracer: Tracer;
  meter: Meter;
  sessionResults: SessionResults;
  costlyArguments: CostlyArguments;
  selector: ResultSelector;
  grants: UserGrants;
  shelf: ResultShelf;
  clock: Clock;
  settings: EngineSettings;
}

/** The original definition of a tool, and how the caller's toolset shows it. */
export interface ResolvedTool {
  tool: RegisteredTool;
  view?: ToolView;
}

/** Read access to tool definitions. */
export abstract class ToolCatalog {
  /**
   * The tool that a caller means by a name or alias; undefined when there is none.
   * @throws ToolError when the caller's toolset does not have it, or its override awaits an approval
   */
  abstract resolve(name: string, principal: Principal): MaybePromise<ResolvedTool | undefined>;

  /** The error for a name that no tool has: TOOL_NOT_FOUND. */
  async notFound(name: string, _principal: Principal): Promise<unknown> {
    return new ToolError('TOOL_NOT_FOUND', { message: `Tool '${name}' not found` });
  }
}

/** The user of a credential, and its source. */
export interface GrantOwner {
  tenantId: string;
  userId: string;
  source: ToolSource;
}

/** The credentials of users for sources with tools that act as them. */
export abstract class UserGrants {
  /**
   * The id of the grant of a user.
   * @throws ToolError AUTHORIZATION_REQUIRED when there is none, with `facts.connect` if there is a page to connect one; AUTH_NOT_CONFIGURED, SERVICE_UNAVAILABLE
   */
  abstract find(owner: GrantOwner, auth: UserAuth, caller: Principal): MaybePromise<string>;
  /** AUTHORIZATION_REQUIRED for a grant that the upstream no longer takes, with where the user connects an account. */
  abstract required(owner: GrantOwner, auth: UserAuth, why: string): ToolError;
}

/** Input of a policy decision. */
export interface PolicyRequest {
  call: ActiveCall;
  tool: RegisteredTool;
  /** Coerced and valid. */
  arguments: JsonObject;
}

/** `reasons`: the message of each rule that denies. */
export type PolicyResult = Allowed | { allowed: false; reasons: string[]; rules?: readonly string[] };

/** Decides on calls. The engine turns an error or a rejection into a denial. */
export abstract class PolicyPort {
  abstract decide(request: PolicyRequest): MaybePromise<PolicyResult>;
}

/** A call that needs an approval, and what for. */
export interface ApprovalRequest {
  call: Call;
  /** Bound to the call: its revision, arguments and context. */
  required: RequiredApproval;
  /** Refuses the call as if there were no stored approvals. */
  refusal: ToolError;
}

/** Approvals by people other than the one at the client of the caller. They are stored, and outlive the request. */
export abstract class ApprovalPort {
  /**
   * Asks, or finds the decision since the same call asked.
   * @returns the idempotency key under which the approved call runs, so that one approval runs one call
   * @throws ToolError APPROVAL_REQUIRED: the question is stored (`facts.approval`); APPROVAL_DECLINED; SERVICE_UNAVAILABLE when it
   *   cannot be stored
   */
  abstract ask(request: ApprovalRequest): Promise<{ idempotencyKey: string }>;

  /**
   * The id of the grant that people gave for calls like this one, counted; undefined when there is none, and while that is not
   * known. Never rejects.
   */
  abstract useGrant(request: Pick<ApprovalRequest, 'call' | 'required'>): Promise<string | undefined>;

  /**
   * Asks about calls of a program, or finds the decision since the same run of it asked.
   * @returns the approval under which all of them run
   * @throws ToolError as `ask`
   */
  abstract askForProgram(question: ProgramQuestion): Promise<{ id: string }>;
}

/** Calls of a program that people decide on in one step. */
export interface ProgramQuestion {
  /** The call of the program. */
  call: Call;
  /** The shown arguments. */
  shown: JsonObject;
  /** Their questions, named. */
  questions: readonly string[];
  /** With the questions, as `waits`. */
  state: ProgramState;
  /** The same question has the same one. */
  digest: string;
  /** No later than this. */
  until: EpochMs;
}

/** Token buckets by key, shared by all replicas. */
export abstract class RateLimiter {
  /** Takes one token. Never throws: while the store is unavailable, a local share of the rate decides. */
  abstract take(key: string, rate: Rate): MaybePromise<RateDecision>;
  /** Tokens left; takes none. */
  abstract peek(key: string, rate: Rate): MaybePromise<number>;
}

/** Money and tokens, reserved before a call and settled after it. */
export abstract class BudgetPort {
  /** @throws ToolError BUDGET_UNAVAILABLE: the engine fails closed */
  abstract reserve(request: ReserveRequest, signal: AbortSignal): MaybePromise<ReserveAnswer>;
  /**
   * Never throws: sent before the reply leaves, confirmed and retried in the background. Where a limit is named on what the call
   * reported, the answer waits for the promise: until the charge is confirmed, at most 2 s.
   * @param isAwaited sends at once and returns a promise
   */
  abstract settle(request: SettleRequest, isAwaited?: boolean): MaybePromise<void>;
  /** Gives a reservation back; like `settle`, never throws. */
  abstract release(callId: string, scopes: BudgetScopes): void;
  /** Rest of the limits of these scopes and budgets. */
  abstract limits(asked: BudgetLimits, signal: AbortSignal): MaybePromise<BudgetLimitsReply>;
}

/** A cached result. */
export interface CachedResult {
  result: Succeeded;
  storedAt: EpochMs;
}

/**
 * Where results are looked up. `process`: in this process only, for work that is cheaper than a remote lookup. `near`: in this
 * process, then in the shared store. `fleet`: in the shared store, where every `drop` by any replica is seen.
 */
type CacheReach = 'process' | 'near' | 'fleet';

/** The results that a call with effects drops together: of one tenant and one source of tools. */
export interface CacheScope {
  tenantId: string;
  /** Kind and name of the source. */
  source: string;
  reach: CacheReach;
}

/** Outcome of a lookup. */
export interface CacheLookup {
  cached?: CachedResult;
  /** Undefined when the shared store did not answer and `reach` is `fleet`. */
  version: CacheVersion | undefined;
}

/** How long a result may answer other calls, and where it is kept. */
export interface CacheAges {
  freshMs: Milliseconds;
  /** How long it may replace a failure. */
  staleMs: Milliseconds;
  scope: CacheScope;
  /** Version that the scope had before the call began. A result that was read before a `drop` is never served after it. */
  version: CacheVersion;
}

/** Successful results of idempotent calls. Never throws: a store that fails is a miss. */
export abstract class ResultCache {
  /** A fresh result, and the version of its scope. */
  abstract get(key: string, scope: CacheScope): MaybePromise<CacheLookup>;
  /** A version that the scope had at most a second ago: for calls with a result for no other call. */
  abstract version(scope: CacheScope): MaybePromise<CacheVersion | undefined>;
  /** A result no older than the `staleMs` it was stored with. */
  abstract getStale(key: string, scope: CacheScope): MaybePromise<CachedResult | undefined>;
  abstract set(key: string, result: Succeeded, ages: CacheAges): void;
  /** Drops all results of a scope. Resolves when lookups of all replicas see it, or after a short time-out. */
  abstract drop(scope: CacheScope): MaybePromise<void>;
}

/** Results of earlier calls of a session. */
export abstract class SessionResults {
  abstract get(sessionKey: string, resultKey: string): MaybePromise<Succeeded | undefined>;
  abstract put(sessionKey: string, resultKey: string, result: Succeeded, ttlMs: Milliseconds): void;
}

/** Arguments with the schema and the rules of their tool. */
export interface ArgumentJob {
  schema: JsonObject;
  rules: ArgumentRules;
  raw: JsonObject;
  view?: ToolView;
}

/** Reads arguments that take longer to check than an event loop may be held, in bounded time and memory. */
export abstract class CostlyArguments {
  /** @throws ToolError SERVICE_UNAVAILABLE or QUEUE_FULL when they exceed the bounds; the signal's reason when it is aborted */
  abstract read(job: ArgumentJob, bounds: { tenantId: string; signal: AbortSignal }): Promise<ReadArguments>;
}

/** The selection of an expression. */
export interface Selected {
  value: Json;
  /** Shape of the document in words; present where the expression matches nothing. */
  shape?: string;
}

/** Evaluates the selections of calls in bounded time and memory. */
export abstract class ResultSelector {
  /**
   * @param document JSON text, or any other text
   * @throws ToolError when the evaluation fails or exceeds its bounds; the signal's reason when it is aborted
   */
  abstract select(
    document: string,
    selection: SelectExpression,
    bounds: { tenantId: string; signal: AbortSignal },
  ): Promise<Selected>;
}

/** Keeps large results for the callers that may read them. */
export abstract class ResultShelf {
  /** Keeps the result of a call under its id. Never throws: undefined when it cannot be kept. */
  abstract keep(
    request: Pick<CallRequest, 'callId' | 'principal' | 'context' | 'origin'>,
    tool: string,
    result: CallResult,
  ): Promise<KeptHandle | undefined>;
}

/** Runs one attempt for one kind of binding. */
export abstract class Executor {
  /**
   * Must stop its work when `call.signal` is aborted.
   * @throws ToolError when the attempt could not run (EXECUTOR_UNAVAILABLE, QUEUE_FULL, …); with the fact `begun: 'no'`
   *   when it provably never began
   */
  abstract execute(call: Call): Promise<ExecResponse>;
}

/** How a call ended, for reports. */
export interface AuditRecord {
  call: ActiveCall;
  ok: boolean;
  durationMs: Milliseconds;
  microUsd: MicroUsd;
  /** Time in queues and executors; the rest of `durationMs` is the engine's own. */
  executeMs?: Milliseconds;
  /** Absent for a call that was refused. */
  result?: CallResult;
  /** Absent for a call that was refused. */
  timing?: CallResult['timing'];
  provenance?: string;
  attempts: number;
  code?: ErrorCode;
  errorType?: ErrorClass;
  error?: string;
  /** The executor is the cause of the failure: it did not answer, or no worker was alive. */
  isExecutorFault?: boolean;
  /** The tool or its upstream is, also of an outcome that is unknown. */
  isToolFault?: boolean;
}

/** The log of calls. */
export abstract class Audit {
  abstract finished(record: AuditRecord): void;
  /** Called before the wait for a retry. */
  retrying(_event: {
    call: ShownCall;
    callId: string;
    /** Number of the attempt that will follow, from 2. */
    attempt: number;
    maxAttempts: number;
    delayMs: Milliseconds;
    error: string;
  }): void {}
}

/** Records calls as spans. */
export abstract class Tracer {
  /** Runs a call, inside a span if it is recorded. `active` holds the facts of the call when `work` has settled. */
  abstract trace(active: ActiveCall, work: () => Promise<CallResult>): Promise<CallResult>;
}

/** Metrics of calls. Every method is optional to override. */
export abstract class Meter {
  finished(_record: AuditRecord): void {}
  rateLimited(_tool: RegisteredTool): void {}
  tokensAvailable(_tool: RegisteredTool, _tokens: number): void {}
  cacheLookup(_tool: RegisteredTool, _outcome: 'hit' | 'miss' | 'coalesced'): void {}
  retried(_tool: RegisteredTool): void {}
  outputMismatched(_tool: RegisteredTool): void {}
  fellBack(_tool: RegisteredTool, _kind: 'stale_cache' | 'stub_data' | 'graceful_error'): void {}
  intercepted(_interception: Interception): void {}
}
