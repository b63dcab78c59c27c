import { isJsonObject, ToolError, type Json, type JsonObject } from '@toolfleet/contracts';
import type { EgressClient } from '@toolfleet/egress';

/** A tool call a model asks for. */
export interface ChatToolCall {
  id: string;
  type: 'function';
  /** `arguments` is JSON text, as the model wrote it. */
  function: { name: string; arguments: string };
}

/** A message of a conversation, in the format of the OpenAI chat API. */
export type ChatMessage =
  | { role: 'system' | 'user'; content: string }
  | { role: 'assistant'; content: string | null; tool_calls?: ChatToolCall[] }
  | { role: 'tool'; tool_call_id: string; content: string };

/** A request for one turn of a model. */
export interface ChatRequest {
  messages: readonly ChatMessage[];
  /** In OpenAI's format. If empty, the model has to answer. */
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
  /** Prompt and completion tokens; 0 if the server does not report them. */
  tokens: number;
}

/** A chat model. */
export abstract class ChatModel {
  /** @throws ToolError AUTH_NOT_CONFIGURED, UPSTREAM_ERROR, NETWORK_ERROR */
  abstract turn(request: ChatRequest, signal: AbortSignal): Promise<ChatTurn>;
}

/** An OpenAI-compatible endpoint. */
interface ChatEndpoint {
  /** URL without `/chat/completions`; undefined if not configured. */
  baseUrl: string | undefined;
  model: string;
  apiKey: string | undefined;
}

/** A turn of a large model may take minutes; the deadline of the call may end it sooner. */
const TURN_MS = 120_000;

/** A server with OpenAI's `POST /chat/completions`. */
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
    const hasTools = request.tools.length > 0;
    const headers: Record<string, string> = { 'content-type': 'application/json', accept: 'application/json' };
    if (apiKey) headers['authorization'] = `Bearer ${apiKey}`;
    const response = await this.egress.request({
      url: `${baseUrl.replace(/\/$/, '')}/chat/completions`,
      method: 'POST',
      headers,
      body: JSON.stringify({
        model: request.model ?? model,
        messages: request.messages,
        tools: hasTools ? request.tools : undefined,
        tool_choice: hasTools ? 'auto' : undefined,
        max_tokens: request.maxTokens,
        temperature: request.temperature,
      }),
      signal,
      timeouts: { totalMs: TURN_MS, headersMs: TURN_MS, bodyIdleMs: TURN_MS },
    });
    const text = (await response.body.bytes()).toString('utf8');
    // The body of an error may repeat the key, so only its status is reported.
    if (response.status !== 200)
      throw new ToolError('UPSTREAM_ERROR', {
        message: `The model answered HTTP ${response.status}`,
        details: { status: response.status },
      });
    return parseTurn(text);
  }
}

function parseTurn(text: string): ChatTurn {
  let answer: Json;
  try {
    answer = JSON.parse(text) as Json;
  } catch {
    throw new ToolError('UPSTREAM_ERROR', { message: 'The model did not return JSON' });
  }
  const choice = isJsonObject(answer) && Array.isArray(answer['choices']) ? answer['choices'][0] : undefined;
  const message = isJsonObject(choice) ? choice['message'] : undefined;
  if (!isJsonObject(answer) || !isJsonObject(message))
    throw new ToolError('UPSTREAM_ERROR', { message: 'The model returned no message' });
  const usage = isJsonObject(answer['usage']) ? answer['usage'] : {};
  const count = (name: string) => (typeof usage[name] === 'number' ? usage[name] : 0);
  return {
    content: typeof message['content'] === 'string' ? message['content'] : '',
    toolCalls: (Array.isArray(message['tool_calls']) ? message['tool_calls'] : []).flatMap(readToolCall),
    tokens: count('total_tokens') || count('prompt_tokens') + count('completion_tokens'),
  };
}

function readToolCall(call: Json, index: number): ChatToolCall[] {
  const wanted = isJsonObject(call) ? call['function'] : undefined;
  if (!isJsonObject(call) || !isJsonObject(wanted) || typeof wanted['name'] !== 'string') return [];
  const args = wanted['arguments'];
  return [
    {
      id: typeof call['id'] === 'string' ? call['id'] : `call_${index}`,
      type: 'function',
      // Some servers send an object instead of JSON text.
      function: {
        name: wanted['name'],
        arguments: typeof args === 'string' ? args : JSON.stringify((args as JsonObject | undefined) ?? {}),
      },
    },
  ];
}
