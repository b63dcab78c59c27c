import type { JsonObject } from '@toolfleet/contracts';

/** A tool call a model asks for. */
export interface ChatToolCall {
  id: string;
  type: 'function';
  /** `arguments` is JSON text, as the model wrote it. */
  function: { name: string; arguments: string };
}

/** A message of a conversation, in the words of the OpenAI chat API. */
export type ChatMessage =
  | { role: 'system' | 'user'; content: string }
  | { role: 'assistant'; content: string | null; tool_calls?: ChatToolCall[] }
  | { role: 'tool'; tool_call_id: string; content: string };

/** One turn asked of a model. */
export interface ChatRequest {
  messages: readonly ChatMessage[];
  /** In OpenAI's form; empty: the model has to answer. */
  tools: readonly JsonObject[];
  /** Overrides the configured model. */
  model?: string;
  maxTokens?: number;
  temperature?: number;
}

/** A model's turn. */
export interface ChatTurn {
  content: string;
  toolCalls: ChatToolCall[];
  /** Prompt and completion tokens, 0 when the server tells none. */
  tokens: number;
}

/** A chat model. Injected by type. */
export abstract class ChatModel {
  /** @throws ToolError AUTH_NOT_CONFIGURED, UPSTREAM_ERROR, NETWORK_ERROR */
  abstract turn(request: ChatRequest, signal: AbortSignal): Promise<ChatTurn>;
}
