import type { CallBody, CallMessage, JsonObject, MicroUsd } from '@toolfleet/contracts';
import type { SpendReply } from '@toolfleet/contracts/budget';
import type { ChatModel } from './chat-model.js';

/** How tokens are priced and estimated. */
export interface TurnPricing {
  microUsdPer1kTokens: number;
  /** Fewest bytes of a prompt per token. With 1, no byte-based tokenizer can use more than was held. */
  bytesPerToken: number;
  /** Tokens of the longest answer, unless the caller sets a limit. */
  maxTokens: number;
}

/** The services and limits of `multi_agent`; the limits come from section `sub_agent` of the configuration file. */
export interface AgentServices {
  model: ChatModel;
  tools: ToolCaller;
  /** Slices of the caller's budgets, one for each turn of the model. */
  spending: Spending;
  /** Rounds of tool calls per task; default 3. */
  maxIterations: number;
  /** Concurrent tasks; default 3. */
  maxConcurrency: number;
  /** Concurrent tool calls of a task; default 5 (TOOL_PARALLELISM). */
  toolParallelism: number;
  /** Price of the model's tokens (0 if callers are not charged), and how a turn is estimated. */
  pricing: TurnPricing;
}

/** The caller and the deadline of tools. */
export interface CallerGrant {
  /** Token of the call being served; carries exactly its caller's rights and budget. */
  delegationToken: string;
  /** Epoch ms. */
  deadlineAt: number;
  signal: AbortSignal;
}

/** Calls tools of the fleet on behalf of a call. */
export abstract class ToolCaller {
  /** The tools that the caller may use, in the native format (`name`, `description`, `parameters`). */
  abstract list(grant: CallerGrant): Promise<JsonObject[]>;
  /** The ones that match a task in words, best first. */
  abstract search(query: string, limit: number, grant: CallerGrant): Promise<JsonObject[]>;
  /** @throws ToolError if the call is refused (POLICY_DENIED, BUDGET_EXCEEDED, ARGUMENTS_INVALID, …) */
  abstract call(message: CallMessage, grant: CallerGrant): Promise<CallBody>;
}

/** Maximum or actual cost of a step. */
export interface SliceAmount {
  /** Id of the slice, unique within its call. */
  slice: string;
  tokens: number;
  microUsd: MicroUsd;
}

/** Why a slice was not granted. */
export type SliceRefusal = Omit<Extract<SpendReply, { held: false }>, 'held'>;

/** Slices of the budgets of a call, for a tool that spends while it runs. */
export abstract class Spending {
  /**
   * Reserves a slice. Returns undefined if it is held, else the refusal. Ignores the signal of the grant, so that its response
   * is never lost.
   * @throws ToolError BUDGET_UNAVAILABLE or a transport error; nothing may be spent then
   */
  abstract hold(amount: SliceAmount, grant: CallerGrant): Promise<SliceRefusal | undefined>;
  /** Charges the actual cost of a slice; never throws. If settling fails, the slice is charged in full when its lease ends. */
  abstract settle(amount: SliceAmount, grant: CallerGrant): Promise<void>;
  /** Releases a slice of which nothing was spent; never throws. */
  abstract release(slice: string, grant: CallerGrant): Promise<void>;
}
