import {
  CLIENT_CAPABILITIES_META_KEY,
  isInputRequiredResult,
  type InputRequiredResult,
} from '@modelcontextprotocol/client';
import { isJsonObject, ToolError, type PersonInput, type Json, type JsonObject } from '@toolfleet/contracts';
import { addressFault } from '@toolfleet/contracts/person-address';
import { failedResponse, type ExecMessage, type ExecResponse } from '@toolfleet/contracts/execution';

/** Maximum size of a server's question and state, in characters of JSON: both travel to the client and back. */
const MAX_CHARS = 64 * 1024;

/**
 * The parameters of a request to a server of 2026-07-28, with the caller's capabilities and its answers.
 * @param extensions that the fleet itself declares
 */
export function withInput<T extends object>(
  params: T & { _meta?: object },
  { capabilities, given }: PersonInput,
  extensions?: JsonObject,
): T {
  const declared = extensions ? { ...capabilities, extensions } : capabilities;
  const _meta = { ...params._meta, [CLIENT_CAPABILITIES_META_KEY]: declared };
  return { ...params, _meta, inputResponses: given?.responses, requestState: given?.state };
}

/** Whether a server asks for input of answering (`resultType: input_required`). */
export function asksForInput(result: unknown): result is InputRequiredResult {
  return isInputRequiredResult(result);
}

/**
 * A server's question, as the outcome of an attempt. It may use declared capabilities only.
 * @param holder the task of the server that asks, or the executor that holds the call open until the answers
 */
export function toInputResponse(
  { inputRequests = {}, requestState }: Pick<InputRequiredResult, 'inputRequests' | 'requestState'>,
  { input, revision }: Pick<ExecMessage, 'input' | 'revision'>,
  server: string,
  holder: { task?: string; executor?: string } = {},
): ExecResponse {
  const requests = inputRequests as unknown as JsonObject;
  const undeclared = Object.values(requests).find((request) => !isDeclared(request, input?.capabilities));
  if (undeclared !== undefined) {
    const method = isJsonObject(undeclared) ? String(undeclared['method']).slice(0, 100) : typeof undeclared;
    return refused(`The MCP server ${server} asks for ${method}, which the caller did not declare`, server);
  }
  for (const request of Object.values(requests)) {
    const fault = faultOfAddress(request);
    if (fault !== undefined)
      return refused(`The MCP server ${server} asks a person to open an address that is refused: ${fault}`, server);
  }
  if (JSON.stringify(requests).length > MAX_CHARS || (requestState?.length ?? 0) > MAX_CHARS)
    return refused(`The MCP server ${server} asks for input with more than ${MAX_CHARS} characters`, server);
  return failedResponse(
    new ToolError('INPUT_REQUIRED', {
      message: `The MCP server ${server} asks for input`,
      details: { server },
      facts: { input: { server, revision, requests, state: requestState, ...holder } },
    }),
  );
}

function isDeclared(request: Json, capabilities: JsonObject | undefined): boolean {
  if (!isJsonObject(request) || request['method'] !== 'elicitation/create' || !isJsonObject(request['params']))
    return false;
  const { mode = 'form' } = request['params'];
  const elicitation = capabilities?.['elicitation'];
  return isJsonObject(elicitation) && isJsonObject(elicitation[String(mode)]);
}

/** Why the address of a question is not shown; undefined for other questions. */
function faultOfAddress(request: Json): string | undefined {
  const params = isJsonObject(request) && isJsonObject(request['params']) ? request['params'] : {};
  return params['mode'] === 'url' ? addressFault(String(params['url'])) : undefined;
}

const refused = (message: string, server: string): ExecResponse =>
  failedResponse(new ToolError('UPSTREAM_ERROR', { message, details: { server } }));
