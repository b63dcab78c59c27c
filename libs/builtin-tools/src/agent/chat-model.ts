import { isJsonObject, ToolError, type Json, type JsonObject } from '@toolfleet/contracts';
import type { EgressClient } from '@toolfleet/egress';

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

/** An OpenAI-compatible endpoint. */
export interface ChatEndpoint {
  /** Up to and without `/chat/completions`; absent: not configured. */
  baseUrl: string | undefined;
  model: string;
  apiKey: string | undefined;
}

/** A turn of a large model may take minutes; the call's own deadline ends it sooner. */
const TURN_MS = 120_000;

/** Any server that speaks OpenAI's `POST /chat/completions`. */
export class OpenAiChatModel extends ChatModel {
  constructor(
    private readonly endpoint: ChatEndpoint,
    private readonly egress: EgressClient,
  ) {
    super();
  }

  override async turn(request: ChatRequest, signal: AbortSignal): Promise<ChatTurn> {
    const { baseUrl, model, apiKey } = this.endpoint;
    if (!baseUrl)
      throw new ToolError('AUTH_NOT_CONFIGURED', {
        message: 'multi_agent has no model: set LLM_BASE_URL, LLM_MODEL and LLM_API_KEY',
      });
    const response = await this.egress.request({
      url: `${baseUrl.replace(/\/$/, '')}/chat/completions`,
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json',
        ...(apiKey ? { authorization: `Bearer ${apiKey}` } : {}),
      },
      body: JSON.stringify({
        model: request.model ?? model,
        messages: request.messages,
        ...(request.tools.length > 0 ? { tools: request.tools, tool_choice: 'auto' } : {}),
        ...(request.maxTokens === undefined ? {} : { max_tokens: request.maxTokens }),
        ...(request.temperature === undefined ? {} : { temperature: request.temperature }),
      }),
      signal,
      timeouts: { totalMs: TURN_MS, headersMs: TURN_MS, bodyIdleMs: TURN_MS },
    });
    const text = (await response.body.bytes()).toString('utf8');
    // The body of a refusal may repeat the key: only its status is told.
    if (response.status !== 200)
      throw new ToolError('UPSTREAM_ERROR', {
        message: `The model answered HTTP ${response.status}`,
        details: { status: response.status },
      });
    return turnOf(text);
  }
}

function turnOf(text: string): ChatTurn {
  let answer: Json;
  try {
    answer = JSON.parse(text) as Json;
  } catch {
    throw new ToolError('UPSTREAM_ERROR', { message: 'The model did not answer with JSON' });
  }
  const choice = isJsonObject(answer) && Array.isArray(answer['choices']) ? answer['choices'][0] : undefined;
  const message = isJsonObject(choice) ? choice['message'] : undefined;
  if (!isJsonObject(answer) || !isJsonObject(message))
    throw new ToolError('UPSTREAM_ERROR', { message: 'The model answered without a message' });
  const usage = isJsonObject(answer['usage']) ? answer['usage'] : {};
  const count = (name: string) => (typeof usage[name] === 'number' ? usage[name] : 0);
  return {
    content: typeof message['content'] === 'string' ? message['content'] : '',
    toolCalls: (Array.isArray(message['tool_calls']) ? message['tool_calls'] : []).flatMap(toolCallOf),
    tokens: count('total_tokens') || count('prompt_tokens') + count('completion_tokens'),
  };
}

function toolCallOf(call: Json, index: number): ChatToolCall[] {
  const wanted = isJsonObject(call) ? call['function'] : undefined;
  if (!isJsonObject(call) || !isJsonObject(wanted) || typeof wanted['name'] !== 'string') return [];
  const args = wanted['arguments'];
  return [
    {
      id: typeof call['id'] === 'string' ? call['id'] : `call_${index}`,
      type: 'function',
      // Some servers send an object instead of its text.
      function: {
        name: wanted['name'],
        arguments: typeof args === 'string' ? args : JSON.stringify((args as JsonObject | undefined) ?? {}),
      },
    },
  ];
}
