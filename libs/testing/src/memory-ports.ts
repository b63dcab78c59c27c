import { ToolError, type CallRequest, type CallResult, type CallState, type Principal } from '@toolfleet/contracts';
import type { BudgetLimitsReply, ReserveAnswer, ReserveRequest, SettleRequest } from '@toolfleet/contracts/budget';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import type { UserAuth } from '@toolfleet/contracts/user-auth';
import { BreakerMap, SystemClock, type Clock } from '@toolfleet/resilience';
import {
  Audit,
  BudgetPort,
  DEFAULT_SETTINGS,
  MemoryRateLimiter,
  MemoryResultCache,
  MemorySessionResults,
  Meter,
  PolicyPort,
  CostlyArguments,
  ResultSelector,
  type ArgumentJob,
  ResultShelf,
  ToolCatalog,
  Tracer,
  UserGrants,
  type ActiveCall,
  type GrantOwner,
  type Call,
  type KeptHandle,
  type Selected,
  type AuditRecord,
  type EnginePorts,
  type Executor,
  type PolicyResult,
  type ResolvedTool,
} from '@toolfleet/engine';
import { ArgumentReader, CHILD_STEPS, type ReadArguments } from '@toolfleet/bounded-schema';
import { selectFrom, type SelectExpression } from '@toolfleet/bounded-schema/select';
import type { Acceptance, Journal, JournalEntry, JournalRequest, KeyedCall } from '@toolfleet/journal';

/** The default of the gateway. */
const BREAKER_RULE = { errorRate: { threshold: 0.5, windowMs: 30_000, minCalls: 20 }, recoveryMs: 30_000 };

/** A catalogue of given definitions. */
export class MemoryCatalog extends ToolCatalog {
  readonly tools = new Map<string, RegisteredTool>();

  constructor(tools: readonly RegisteredTool[]) {
    super();
    for (const tool of tools) for (const name of [tool.name, ...(tool.aliases ?? [])]) this.tools.set(name, tool);
  }

  override resolve(name: string, { tenantId }: Principal): ResolvedTool | undefined {
    const tool = this.tools.get(name);
    return tool && (tool.tenant === undefined || tool.tenant === tenantId) ? { tool } : undefined;
  }
}

/** Reads all arguments in this process. */
export class LocalArguments extends CostlyArguments {
  override async read({ schema, rules, raw, view }: ArgumentJob): Promise<ReadArguments> {
    return new ArgumentReader(schema, rules).read(raw, view, CHILD_STEPS);
  }
}

/** Evaluates selections in this process. */
export class LocalSelector extends ResultSelector {
  override async select(document: string, selection: SelectExpression): Promise<Selected> {
    return selectFrom(document, selection);
  }
}

/** Keeps results by handle. */
export class MemoryShelf extends ResultShelf {
  readonly kept = new Map<string, CallResult>();

  override async keep(
    { callId }: Pick<CallRequest, 'callId'>,
    _tool: string,
    result: CallResult,
  ): Promise<KeptHandle | undefined> {
    this.kept.set(callId, result);
    return { handle: callId, expiresAt: 0 };
  }
}

/** Grants by user id. */
export class MemoryGrants extends UserGrants {
  readonly ids = new Map<string, string>();

  override find(owner: GrantOwner, auth: UserAuth): string {
    const id = this.ids.get(owner.userId);
    if (id === undefined) throw this.required(owner, auth, 'No grant');
    return id;
  }

  override required(_owner: GrantOwner, _auth: UserAuth, why: string): ToolError {
    return new ToolError('AUTHORIZATION_REQUIRED', { message: why });
  }
}

/** Lets everything through. */
export class AllowAll extends PolicyPort {
  override decide(): PolicyResult {
    return { allowed: true };
  }
}

/** One limit for everything, in memory: spending and reservations are readable for tests. */
export class MemoryBudget extends BudgetPort {
  readonly settled: SettleRequest[] = [];
  readonly released: string[] = [];
  readonly reserved: ReserveRequest[] = [];
  /** Whether a call may cost more than it reserved. */
  mayOverrun = false;
  readonly held = new Map<string, number>();
  spent = 0;

  constructor(readonly limitMicroUsd = Number.MAX_SAFE_INTEGER) {
    super();
  }

  override reserve(ask: ReserveRequest): ReserveAnswer {
    const used = this.spent + [...this.held.values()].reduce((sum, microUsd) => sum + microUsd, 0);
    if (used >= this.limitMicroUsd || used + ask.micro_usd > this.limitMicroUsd) {
      return {
        admitted: false,
        call_id: ask.call_id,
        code: 'BUDGET_EXCEEDED',
        scope: 'request',
        limit: this.limitMicroUsd,
        used,
      };
    }
    this.held.set(ask.call_id, ask.micro_usd);
    this.reserved.push(ask);
    return { admitted: true, call_id: ask.call_id, may_overrun: this.mayOverrun || undefined };
  }

  override settle(ask: SettleRequest): void {
    this.held.delete(ask.call_id);
    this.spent += ask.micro_usd;
    this.settled.push(ask);
  }

  override release(callId: string): void {
    this.held.delete(callId);
    this.released.push(callId);
  }

  /** What `limits` answers. */
  shown: BudgetLimitsReply['limits'] = [];

  override limits(): BudgetLimitsReply {
    return { limits: this.shown };
  }
}

/** Journal of one process for tests and benchmarks; the product's are in libs/journal. */
export class MapJournal implements Pick<Journal, 'find' | 'accept' | 'bump' | 'awaitInput' | 'finish' | 'withdraw'> {
  readonly entries = new Map<string, { ask: JournalRequest; state: CallState; fence: number; outcome?: CallResult }>();

  find(tenantId: string, idempotencyKey: string, fingerprint: string): Promise<KeyedCall> {
    return Promise.resolve(this.#look(tenantId, idempotencyKey, fingerprint));
  }

  accept(ask: JournalRequest): Promise<Acceptance> {
    return Promise.resolve(this.#accept(ask));
  }

  #look(tenantId: string, idempotencyKey: string, fingerprint: string): KeyedCall {
    for (const { ask, outcome, state } of this.entries.values()) {
      const { callId } = ask;
      if (ask.tenantId !== tenantId || ask.idempotencyKey !== idempotencyKey) continue;
      if (state === 'cancelled' || state === 'expired') continue;
      if (ask.fingerprint !== fingerprint) return { kind: 'mismatch', callId };
      const { userId, maker } = ask;
      return outcome
        ? { kind: 'finished', callId, outcome, userId, maker }
        : { kind: 'running', callId, retryAfterMs: 1_000 };
    }
    return { kind: 'unknown' };
  }

  #accept(ask: JournalRequest): Acceptance {
    if (ask.idempotencyKey !== undefined) {
      const known = this.#look(ask.tenantId, ask.idempotencyKey, ask.fingerprint ?? '');
      if (known.kind !== 'unknown' && known.callId !== ask.callId) return known;
    }
    const entry = this.entries.get(ask.callId);
    if (entry?.outcome) return { kind: 'finished', callId: ask.callId, outcome: entry.outcome };
    if (entry?.state === 'claimed' && !ask.repeatable) return { kind: 'claimed', state: entry.state };
    const fence = (entry?.fence ?? 0) + 1;
    this.entries.set(ask.callId, { ask, state: 'accepted', fence });
    return { kind: 'accepted', fence };
  }

  awaitInput(callId: string): Promise<boolean> {
    this.entry(callId).state = 'accepted';
    return Promise.resolve(true);
  }

  bump(callId: string, first?: JournalEntry): ReturnType<Journal['bump']> {
    const entry = this.entry(callId, first);
    const open = entry.state === 'accepted' || (entry.ask.repeatable && entry.state === 'claimed');
    if (!open) return Promise.resolve({ refused: entry.state });
    entry.fence += 1;
    entry.state = 'accepted';
    return Promise.resolve({ fence: entry.fence });
  }

  finish(callId: string, fence: number | 'current', outcome: CallResult, first?: JournalEntry): Promise<boolean> {
    const entry = this.entry(callId, first);
    if ((fence !== 'current' && entry.fence !== fence) || entry.outcome) return Promise.resolve(false);
    entry.state = outcome.ok ? 'succeeded' : 'failed';
    entry.outcome = outcome;
    return Promise.resolve(true);
  }

  withdraw(callId: string, as: 'cancelled' | 'expired', first?: JournalEntry): Promise<CallState> {
    const entry = this.entry(callId, first);
    if (entry.state === 'accepted') entry.state = as;
    return Promise.resolve(entry.state);
  }

  /** Runs in an executor right before the effect. */
  claim({ callId, fence, entry: first }: Pick<Call, 'callId' | 'fence' | 'entry'>): boolean {
    const entry = this.entry(callId, first);
    if (entry.state !== 'accepted' || entry.fence !== fence) return false;
    entry.state = 'claimed';
    return true;
  }

  private entry(callId: string, first?: JournalEntry) {
    let entry = this.entries.get(callId);
    if (!entry && first)
      this.entries.set(callId, (entry = { ask: { ...first, callId, repeatable: false }, state: 'accepted', fence: 1 }));
    if (!entry) throw new ToolError('NOT_FOUND', { message: `No call ${callId}` });
    return entry;
  }
}

/** Remembers audit records. */
export class MemoryAudit extends Audit {
  readonly records: AuditRecord[] = [];
  readonly retries: { attempt: number; delayMs: number }[] = [];

  override finished(record: AuditRecord): void {
    this.records.push(record);
  }

  override retrying(event: { attempt: number; delayMs: number }): void {
    this.retries.push(event);
  }
}

/** Counts nothing. */
export class NoMeter extends Meter {}

/** Records no spans. */
export class NoTracer extends Tracer {
  override trace(_active: ActiveCall, work: () => Promise<CallResult>): Promise<CallResult> {
    return work();
  }
}

/** Every port in memory around one executor: for tests, benchmarks and embedding. Single parts are replaced by `parts`. */
export function memoryPorts<Parts extends Partial<EnginePorts>>(
  tools: readonly RegisteredTool[],
  executor: Executor,
  parts: Parts = {} as Parts,
): EnginePorts & Parts {
  const clock: Clock = parts.clock ?? new SystemClock();
  return {
    catalog: new MemoryCatalog(tools),
    policy: new AllowAll(),
    interceptors: [],
    cache: new MemoryResultCache(clock),
    rateLimiter: new MemoryRateLimiter(clock),
    budget: new MemoryBudget(),
    journal: new MapJournal(),
    executorFor: () => executor,
    breakers: new BreakerMap(BREAKER_RULE, clock),
    audit: new MemoryAudit(),
    tracer: new NoTracer(),
    meter: new NoMeter(),
    sessionResults: new MemorySessionResults(clock),
    costlyArguments: new LocalArguments(),
    selector: new LocalSelector(),
    shelf: new MemoryShelf(),
    grants: new MemoryGrants(),
    settings: DEFAULT_SETTINGS,
    ...parts,
    clock,
  };
}
