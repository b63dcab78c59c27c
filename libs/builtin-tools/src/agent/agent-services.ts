import type { CallBody, CallMessage, JsonObject, MicroUsd } from '@toolfleet/contracts';
import type { SpendReply } from '@toolfleet/contracts/budget';
import type { ChatModel } from './chat-model.js';
import type { TurnPricing } from './turn-slices.js';

/** What `multi_agent` works with; limits from section `sub_agent` of the configuration file. */
export interface AgentServices {
  model: ChatModel;
  tools: ToolCaller;
  /** Slices of the caller's budgets, one per turn of a model. */
  spending: Spending;
  /** Rounds of tool calls per task; default 3. */
  maxIterations: number;
  /** Tasks at once; default 3. */
  maxConcurrency: number;
  /** Tool calls of one task at once; default 5 (TOOL_PARALLELISM). */
  toolParallelism: number;
  /** Price of the model's tokens, 0 when they are not charged to callers, and how a turn is estimated. */
  pricing: TurnPricing;
}

/** For whom, and until when, tools are called. */
export interface CallerGrant {
  /** Token of the call that is being served: its caller's rights and budget, no more. */
  delegationToken: string;
  /** Epoch ms. */
  deadlineAt: number;
  signal: AbortSignal;
}

/** Calls tools of the fleet on behalf of a call. Injected by type. */
export abstract class ToolCaller {
  /** Tools the caller may use, in the native format (`name`, `description`, `parameters`). */
  abstract list(grant: CallerGrant): Promise<JsonObject[]>;
  /** @throws ToolError when the call was refused (POLICY_DENIED, BUDGET_EXCEEDED, ARGUMENTS_INVALID, …) */
  abstract call(message: CallMessage, grant: CallerGrant): Promise<CallBody>;
}

/** What one step may cost at most, or did cost. */
export interface SliceAmount {
  /** Id of the slice, unique within its call. */
  slice: string;
  tokens: number;
  microUsd: MicroUsd;
}

/** Why a slice was not granted. */
export type SliceRefusal = Omit<Extract<SpendReply, { held: false }>, 'held'>;

/** Slices of the budgets of a call, for a tool that spends as it goes. Injected by type. */
export abstract class Spending {
  /**
   * Holds a slice. Undefined when it is held. It is not stopped by the signal of the grant, so that its answer is never lost.
   * @throws ToolError BUDGET_UNAVAILABLE and what the transport fails with: nothing may be spent then
   */
  abstract hold(amount: SliceAmount, grant: CallerGrant): Promise<SliceRefusal | undefined>;
  /** Charges what a slice did cost; never throws. One that cannot be settled is charged in full when its lease ends. */
  abstract settle(amount: SliceAmount, grant: CallerGrant): Promise<void>;
  /** Gives a slice back of which nothing was spent; never throws. */
  abstract release(slice: string, grant: CallerGrant): Promise<void>;
}
