import type { ChatModel } from './chat-model.js';
import type { Spending } from './spending.js';
import type { ToolCaller } from './tool-caller.js';
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
