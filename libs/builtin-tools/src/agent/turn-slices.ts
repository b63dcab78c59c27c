import { randomUUID } from 'node:crypto';
import { isToolError, ToolError, type MicroUsd, type Usage } from '@toolfleet/contracts';
import type { Clock } from '@toolfleet/resilience';
import type { CallerGrant, SliceRefusal, Spending } from './agent-services.js';
import type { ChatRequest, ChatTurn } from './chat-model.js';

/** A budget of the caller is used up: no task of the call can go on. */
export class BudgetEnded extends Error {}

/** How tokens are priced and estimated. */
export interface TurnPricing {
  microUsdPer1kTokens: number;
  /** Bytes of a prompt per token, at least. With 1 no tokenizer of bytes can use more than was held. */
  bytesPerToken: number;
  /** Longest answer asked of the model when the caller names none, in tokens. */
  maxTokens: number;
}

/** An answer shorter than this is not worth a turn; then the budget counts as used up. */
const LEAST_ANSWER_TOKENS = 256;
/** Pause before a slice is asked for again that others kept from being held: once to twice as long. */
const LOOK_AGAIN_MS = 100;
/** Codes of a model that certainly did no work. */
const UNUSED: ReadonlySet<string> = new Set(['AUTH_NOT_CONFIGURED', 'UPSTREAM_ERROR', 'EGRESS_BLOCKED']);

/**
 * The turns of all tasks of one call, each on a slice of the caller's budgets: the most the turn can take is held before the
 * model is asked, what it took is settled after. Calls that run at the same time cannot use the same rest twice.
 */
export class TurnSlices {
  #tokens = 0;
  #microUsd: MicroUsd = 0;
  /** Fewest tokens a turn with this head has taken. */
  readonly #heads = new Map<string, number>();
  readonly #settling = new Set<Promise<void>>();
  readonly #waiting = new Set<() => void>();

  constructor(
    private readonly spending: Spending,
    private readonly grant: CallerGrant,
    private readonly pricing: TurnPricing,
    private readonly clock: Clock,
  ) {}

  /** What the settled turns took. */
  get usage(): Usage {
    return { tokens: this.#tokens, microUsd: this.#microUsd, settled: true };
  }

  /**
   * Asks for one turn with an answer that its slice pays for: shorter than wanted when little is left.
   * @param known tokens the model has reported for the first `knownMessages` of the conversation
   * @throws BudgetEnded, and whatever `ask` throws
   */
  async turn(
    request: ChatRequest,
    known: { tokens: number; messages: number },
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
      if (isToolError(error) && UNUSED.has(error.code)) used = 0;
      throw error;
    } finally {
      // A turn that was cut off may have been worked on to its end: it counts in full.
      this.#settle(slice, Math.min(used ?? held, held));
    }
  }

  /** Waits until every slice is settled. */
  async settled(): Promise<void> {
    await Promise.all(this.#settling);
  }

  /** Holds the tokens of the prompt and of an answer, as long as the limits and the wish allow. */
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
      if (!refusal) return { prompt, answer };
      const fits = this.#tokensIn(refusal, refusal.used) - prompt;
      if (fits >= least && fits < answer) {
        answer = fits;
        continue;
      }
      if (this.#tokensIn(refusal, refusal.spent) < prompt + least) throw new BudgetEnded(messageOf(refusal));
      await this.#othersSettle();
      answer = wanted;
    }
  }

  /** Others hold more than they will use: a turn of this call, whose end is heard of, or one of another call. */
  async #othersSettle(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.add(resolve);
    const stopTimer = this.clock.after(LOOK_AGAIN_MS * (1 + Math.random()), resolve);
    await promise;
    stopTimer();
    this.#waiting.delete(resolve);
  }

  #settle(slice: string, tokens: number): void {
    const before = this.#price(this.#tokens);
    this.#tokens += tokens;
    // Rounded over the whole call: many small turns cost no more than one large one.
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

  /** The most tokens a prompt can have: what the model has reported of it, and the rest by its size. */
  #promptTokens({ messages, tools }: ChatRequest, known: { tokens: number; messages: number }): number {
    if (known.tokens > 0) return known.tokens + this.#estimate(messages.slice(known.messages));
    const head = [messages[0], tools];
    const reported = this.#heads.get(JSON.stringify(head)) ?? Infinity;
    return Math.min(reported, this.#estimate(head)) + this.#estimate(messages.slice(1));
  }

  /** A turn of any task bounds what its head takes: the system prompt and the tools, which other tasks begin with, too. */
  #learn({ messages, tools }: ChatRequest, tokens: number): void {
    if (tokens === 0) return;
    const head = JSON.stringify([messages[0], tools]);
    this.#heads.set(head, Math.min(tokens, this.#heads.get(head) ?? Infinity));
  }

  #estimate(part: unknown): number {
    return Math.ceil(Buffer.byteLength(JSON.stringify(part)) / this.pricing.bytesPerToken);
  }

  #price(tokens: number): MicroUsd {
    return Math.ceil((tokens * this.pricing.microUsdPer1kTokens) / 1_000);
  }

  /** Tokens that a refusing limit would admit beyond `used`. */
  #tokensIn({ code, limit }: SliceRefusal, used: number): number {
    const rest = Math.max(0, limit - used);
    if (code === 'TOKEN_LIMIT_EXCEEDED') return rest;
    const { microUsdPer1kTokens } = this.pricing;
    return microUsdPer1kTokens > 0 ? Math.floor((rest * 1_000) / microUsdPer1kTokens) : 0;
  }
}

function messageOf({ code, scope }: SliceRefusal): string {
  if (code === 'BUDGET_UNAVAILABLE')
    throw new ToolError(code, { message: 'The budget cannot be checked at the moment' });
  return `${code === 'BUDGET_EXCEEDED' ? 'Budget' : 'Token limit'} exceeded for ${scope}`;
}
