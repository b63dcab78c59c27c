import { randomUUID } from 'node:crypto';
import { isToolError, ToolError, type MicroUsd, type Usage } from '@toolfleet/contracts';
import type { Clock } from '@toolfleet/resilience';
import type { CallerGrant, SliceRefusal, Spending, TurnPricing } from './agent-services.js';
import type { ChatRequest, ChatTurn } from './chat-model.js';

/** A budget of the caller is exhausted; no task of the call can continue. */
export class BudgetExhausted extends Error {}

/** The model's report about a conversation: the tokens of its first messages, with the definitions of its first tools. */
export interface KnownTokens {
  tokens: number;
  messages: number;
  tools: number;
}

/** Shortest answer that is worth a turn; with less left, the budget counts as exhausted. */
const LEAST_ANSWER_TOKENS = 256;
/** Delay before a slice is requested again that concurrent holds prevented; randomized up to twice as long. */
const RETRY_MS = 100;
/** Tokens and micro-USD that a turn leaves of a limit that it would fill: with none left, budgets refuse even free calls of tools. */
const ROOM = 1;
/** How often a tool call is repeated while only others hold the needed rest. */
const MAX_REPEATS = 20;
const BUDGET_CODES: ReadonlySet<string> = new Set<SliceRefusal['code']>(['BUDGET_EXCEEDED', 'TOKEN_LIMIT_EXCEEDED']);
/** Errors after which the model has certainly done no work. */
const NO_WORK_DONE: ReadonlySet<string> = new Set(['AUTH_NOT_CONFIGURED', 'UPSTREAM_ERROR', 'EGRESS_BLOCKED']);

/**
 * Pays for the turns of all tasks of a call, each with a slice of the caller's budgets: the maximum of a turn is held before
 * the request to the model, and its actual cost settled afterwards. Concurrent calls therefore cannot spend the same
 * remainder twice.
 */
export class TurnSlices {
  #tokens = 0;
  #microUsd: MicroUsd = 0;
  /** Turns that hold a slice. */
  #open = 0;
  /** Fewest tokens of any turn so far, by head (system prompt and tools). */
  readonly #heads = new Map<string, number>();
  readonly #settling = new Set<Promise<void>>();
  readonly #waiting = new Set<() => void>();

  constructor(
    private readonly spending: Spending,
    private readonly grant: CallerGrant,
    private readonly pricing: TurnPricing,
    private readonly clock: Clock,
  ) {}

  /** Usage of the settled turns. */
  get usage(): Usage {
    return { tokens: this.#tokens, microUsd: this.#microUsd, settled: true };
  }

  /**
   * Requests one turn that the slice can pay for; it is shorter than requested if little is left.
   * @throws BudgetExhausted, and what `ask` throws
   */
  async turn(
    request: ChatRequest,
    known: KnownTokens,
    ask: (request: ChatRequest) => Promise<ChatTurn>,
  ): Promise<ChatTurn> {
    const slice = randomUUID();
    const promptTokens = () => this.#promptTokens(request, known);
    const { prompt, answer } = await this.#hold(slice, promptTokens, request.maxTokens ?? this.pricing.maxTokens);
    const held = prompt + answer;
    let used: number | undefined;
    try {
      const turn = await ask({ ...request, maxTokens: answer });
      used = turn.tokens;
      this.#learn(request, used);
      return turn;
    } catch (error) {
      if (isToolError(error) && NO_WORK_DONE.has(error.code)) used = 0;
      throw error;
    } finally {
      this.#open -= 1;
      // The model may have completed a turn that was cut off, so it counts in full.
      this.#settle(slice, Math.min(used ?? held, held));
    }
  }

  /**
   * Makes a tool call. Turns that run may hold all that is left of a limit, so a call refused by a budget is repeated when one of
   * them ends, as long as something is held.
   * @throws BudgetExhausted, and what `call` throws
   */
  async besideTurns<T>(call: () => Promise<T>): Promise<T> {
    for (let repeats = 0; ; repeats++) {
      try {
        return await call();
      } catch (error) {
        if (!isToolError(error) || !BUDGET_CODES.has(error.code)) throw error;
        const mayEnd = this.#open > 0 || repeats < MAX_REPEATS;
        if (!mayEnd || !(await this.#isHeld(error))) throw new BudgetExhausted(error.message, { cause: error });
        await this.#waitForRelease();
        this.grant.signal.throwIfAborted();
      }
    }
  }

  /** True if part of the refusing limit is held and not spent, as a slice of the whole limit finds out. */
  async #isHeld({ code, details }: ToolError): Promise<boolean> {
    const limit = details?.['limit'];
    if (typeof limit !== 'number') return false;
    const slice = randomUUID();
    const [tokens, microUsd] = code === 'TOKEN_LIMIT_EXCEEDED' ? [limit, 0] : [0, limit];
    const refusal = await this.spending.hold({ slice, tokens, microUsd }, this.grant);
    if (!refusal) await this.spending.release(slice, this.grant);
    return !refusal || refusal.used > refusal.spent;
  }

  /** Waits until every slice is settled. */
  async settled(): Promise<void> {
    await Promise.all(this.#settling);
  }

  /** Holds the tokens of the prompt and of the longest answer that `wanted` and the limits allow. */
  async #hold(slice: string, promptTokens: () => number, wanted: number): Promise<{ prompt: number; answer: number }> {
    const least = Math.min(wanted, LEAST_ANSWER_TOKENS);
    let answer = wanted;
    for (;;) {
      const prompt = promptTokens();
      const tokens = prompt + answer;
      const refusal = await this.spending.hold({ slice, tokens, microUsd: this.#price(tokens) }, this.grant);
      if (this.grant.signal.aborted) {
        if (!refusal) this.#settle(slice, 0);
        throw this.grant.signal.reason;
      }
      if (!refusal) {
        this.#open += 1;
        return { prompt, answer };
      }
      const fits = this.#tokensIn(refusal, refusal.used + ROOM) - prompt;
      if (fits >= least && fits < answer) {
        answer = fits;
        continue;
      }
      if (this.#tokensIn(refusal, refusal.spent) < prompt + least) throw new BudgetExhausted(toMessage(refusal));
      await this.#waitForRelease();
      answer = wanted;
    }
  }

  /** Waits until a turn of this call settles, or for a while, since turns of other calls may also settle. */
  async #waitForRelease(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.add(resolve);
    const stopTimer = this.clock.after(RETRY_MS * (1 + Math.random()), resolve);
    await promise;
    stopTimer();
    this.#waiting.delete(resolve);
  }

  #settle(slice: string, tokens: number): void {
    const before = this.#price(this.#tokens);
    this.#tokens += tokens;
    // Round over the whole call, so that many small turns cost no more than one large turn.
    const microUsd = this.#price(this.#tokens) - before;
    this.#microUsd += microUsd;
    const settling = (
      tokens === 0
        ? this.spending.release(slice, this.grant)
        : this.spending.settle({ slice, tokens, microUsd }, this.grant)
    ).finally(() => {
      this.#settling.delete(settling);
      for (const wake of this.#waiting) wake();
    });
    this.#settling.add(settling);
  }

  /** Upper bound of the tokens of a prompt: the model's report for its start, and an estimate of the rest by size. */
  #promptTokens({ messages, tools }: ChatRequest, known: KnownTokens): number {
    if (known.tokens > 0) {
      return known.tokens + this.estimate(messages.slice(known.messages)) + this.estimate(tools.slice(known.tools));
    }
    const head = [messages[0], tools];
    const reported = this.#heads.get(JSON.stringify(head)) ?? Infinity;
    return Math.min(reported, this.estimate(head)) + this.estimate(messages.slice(1));
  }

  /** The tokens of any turn are an upper bound for its head (system prompt and tools) that other tasks share. */
  #learn({ messages, tools }: ChatRequest, tokens: number): void {
    if (tokens === 0) return;
    const head = JSON.stringify([messages[0], tools]);
    this.#heads.set(head, Math.min(tokens, this.#heads.get(head) ?? Infinity));
  }

  /** Estimated tokens of a part of a prompt, by its size. */
  estimate(part: readonly unknown[]): number {
    return Math.ceil(Buffer.byteLength(JSON.stringify(part)) / this.pricing.bytesPerToken);
  }

  #price(tokens: number): MicroUsd {
    return Math.ceil((tokens * this.pricing.microUsdPer1kTokens) / 1_000);
  }

  /** Tokens that the limit of a refusal would admit beyond `used`. */
  #tokensIn({ code, limit }: SliceRefusal, used: number): number {
    const rest = Math.max(0, limit - used);
    if (code === 'TOKEN_LIMIT_EXCEEDED') return rest;
    const { microUsdPer1kTokens } = this.pricing;
    return microUsdPer1kTokens > 0 ? Math.floor((rest * 1_000) / microUsdPer1kTokens) : 0;
  }
}

/** @throws ToolError BUDGET_UNAVAILABLE if that is the refusal */
function toMessage({ code, scope }: SliceRefusal): string {
  if (code === 'BUDGET_UNAVAILABLE')
    throw new ToolError(code, { message: 'The budget service is unavailable; retry later' });
  return `${code === 'BUDGET_EXCEEDED' ? 'Budget' : 'Token limit'} exceeded for ${scope}`;
}
