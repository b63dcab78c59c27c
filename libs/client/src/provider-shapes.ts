import type { CallRecord, Json, JsonObject } from '@toolfleet/contracts';
import type { BatchItem } from '@toolfleet/contracts/resources';

/** A tool call of Anthropic's Messages API. */
export interface ToolUse {
  type: 'tool_use';
  id: string;
  name: string;
  input: unknown;
}

/** A tool call of OpenAI's Chat Completions API. */
export interface FunctionToolCall {
  id: string;
  type: 'function';
  function: { name: string; arguments: string };
}

/** A tool call of OpenAI's Responses API. */
export interface FunctionCall {
  type: 'function_call';
  call_id: string;
  name: string;
  arguments: string;
}

/** Results of calls by the format of a batch: they go into the next request to the model unchanged. */
export interface ProviderResults {
  openai: { role: 'tool'; tool_call_id: string; content: string };
  'openai-responses': { type: 'function_call_output'; call_id: string; output: Json };
  anthropic: { type: 'tool_result'; tool_use_id: string; content: JsonObject[]; is_error?: boolean };
  gemini: { functionResponse: { id?: string; name: string; response: JsonObject; parts?: JsonObject[] } };
}

/** A model provider's API, as the format of a batch. */
export type ProviderFormat = keyof ProviderResults;

/** Formats of the tool list that are passed on to a model provider. */
export type ProviderToolFormat = ProviderFormat | 'openai-strict' | 'openai-responses-strict';

/**
 * Calls of a batch: a list of calls, of this API or as a model sends them, or the whole message of a model (an assistant message of
 * OpenAI or Anthropic, a response of OpenAI, content of Gemini).
 */
export type BatchCalls = readonly (BatchItem | ToolUse | FunctionToolCall | FunctionCall | { functionCall: object })[];
/** The whole message of a model. Its texts are ignored. */
export type ModelMessage = { role: string; [member: string]: unknown } | { object: 'response' };

/** The result of a call: in the provider's shape for calls of Anthropic, Gemini and the Responses API, else a record. */
export type ResultOf<Call> = Call extends { type: 'tool_use' }
  ? ProviderResults['anthropic']
  : Call extends { type: 'function_call' }
    ? ProviderResults['openai-responses']
    : Call extends { functionCall: object }
      ? ProviderResults['gemini']
      : CallRecord;
