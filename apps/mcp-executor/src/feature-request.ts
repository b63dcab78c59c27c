/** Prompts and resources of MCP servers: what they list, and the requests that read and complete them. */
import type { Client, RequestOptions } from '@modelcontextprotocol/client';
import { isJsonObject, ToolError, type ContentBlock, type Json, type JsonObject } from '@toolfleet/contracts';
import { failedResponse, type DiscoverReply, type ExecResponse } from '@toolfleet/contracts/execution';
import { isNestedTooDeep, MAX_BODY_DEPTH } from '@toolfleet/contracts/json-text';
import { readFleetAddress } from '@toolfleet/contracts/resource-address';
import { mcpMethod, type McpBinding } from '@toolfleet/contracts/tool-definition';
import { toFleetBlock, withFleetAddress } from './fleet-addresses.js';
import { classifyMcpError } from './mcp-error.js';
import { withInput } from './input-request.js';
import type { McpMessage } from './mcp-target.js';
import { ownMeta } from './tool-result.js';

/** Maximum number of prompts of one server. */
const MAX_PROMPTS = 1_000;
/** Maximum length of the listed resources and templates as JSON. A server with more can be read by templates and links. */
const MAX_LISTED_CHARS = 2 * 1024 * 1024;

/**
 * Lists prompts and resources, all pages, without a cache. A server that declares a list and then refuses it, or sends something else,
 * has none: its tools still work.
 */
export async function listFeatures(
  client: Client,
  options: RequestOptions,
): Promise<Pick<DiscoverReply, 'prompts' | 'resources'>> {
  const capabilities = client.getServerCapabilities();
  const request = { ...options, cacheMode: 'refresh' as const };
  const found: Pick<DiscoverReply, 'prompts' | 'resources'> = {};
  if (capabilities?.prompts) {
    const { prompts } = await orElse(client.listPrompts(undefined, request), { prompts: [] });
    found.prompts = toListed(prompts).slice(0, MAX_PROMPTS);
  }
  if (capabilities?.resources) {
    const { resources } = await orElse(client.listResources(undefined, request), { resources: [] });
    const templates = await orElse(client.listResourceTemplates(undefined, request), { resourceTemplates: [] });
    const room = { chars: MAX_LISTED_CHARS };
    found.resources = {
      resourceTemplates: takeWhileRoom(toListed(templates.resourceTemplates), room),
      resources: takeWhileRoom(toListed(resources), room),
      subscribe: capabilities.resources.subscribe === true,
    };
  }
  return found;
}

/** Listed items, without what their `_meta` says about the protocol or this fleet. */
function toListed(items: readonly object[]): JsonObject[] {
  return (items as readonly JsonObject[]).map(({ _meta, ...item }) => {
    const meta = ownMeta(_meta);
    return meta ? { ...item, _meta: meta } : item;
  });
}

async function orElse<T>(listing: Promise<T>, none: T): Promise<T> {
  try {
    return await listing;
  } catch (error) {
    const { error: known, reconnect } = classifyMcpError(error, 'server');
    if (known.code === 'UPSTREAM_ERROR' && !reconnect) return none;
    throw error;
  }
}

function takeWhileRoom(items: readonly JsonObject[], room: { chars: number }): JsonObject[] {
  return items.filter((item) => (room.chars -= JSON.stringify(item).length) >= 0);
}

/** The result of a `prompts/get`, `resources/read` or `completion/complete`. @throws whatever the SDK throws */
export async function requestFeature(
  client: Client,
  { binding, arguments: args, input }: McpMessage,
  options: RequestOptions,
): Promise<JsonObject> {
  const method = mcpMethod(binding, args);
  const request = { ...options, cacheMode: 'bypass' as const, allowInputRequired: input !== undefined };
  if (method === 'completion/complete') return complete(client, binding, args, options);
  const asks = client.getProtocolEra() === 'modern' ? input : undefined;
  const toParams = <T extends object>(params: T): T => (asks ? withInput(params, asks) : params);
  const result =
    method === 'prompts/get'
      ? await client.getPrompt(toParams({ name: binding.remoteName, arguments: args['arguments'] as never }), request)
      : await client.readResource(toParams({ uri: serverUri(binding, args) }), request);
  return result as unknown as JsonObject;
}

async function complete(
  client: Client,
  binding: McpBinding,
  args: JsonObject,
  options: RequestOptions,
): Promise<JsonObject> {
  if (!client.getServerCapabilities()?.completions) return { completion: { values: [] } };
  const ref =
    binding.method === 'prompts/get'
      ? { type: 'ref/prompt' as const, name: binding.remoteName }
      : { type: 'ref/resource' as const, uri: serverUri(binding, args) };
  const params = { ref, argument: args['argument'], context: args['context'] };
  return (await client.complete(params as Parameters<Client['complete']>[0], options)) as unknown as JsonObject;
}

/** The address at the server. Callers may send the one of the fleet or that of the server. */
function serverUri({ authority }: McpBinding, args: JsonObject): string {
  const address = String(args['uri']);
  const read = readFleetAddress(address);
  return read && read.authority === authority ? read.uri : address;
}

/** A result as the outcome of an attempt: complete, but with addresses of the fleet, and without what concerns its exchange only. */
export function toFeatureResponse(result: JsonObject, { authority }: McpBinding): ExecResponse {
  const { resultType: _type, cacheScope: _scope, _meta, messages, contents, ...rest } = result;
  if (isNestedTooDeep(result)) {
    const message = `The result is nested deeper than ${MAX_BODY_DEPTH} levels`;
    return failedResponse(new ToolError('RESULT_TOO_LARGE', { message }));
  }
  const output: JsonObject = rest;
  const meta = ownMeta(_meta);
  if (meta) output['_meta'] = meta;
  if (Array.isArray(messages)) output['messages'] = messages.map((message) => toFleetMessage(message, authority));
  if (Array.isArray(contents)) output['contents'] = contents.map((content) => withFleetAddress(content, authority));
  return { ok: true, output, text: '', metadata: {} };
}

function toFleetMessage(message: Json, authority: string | undefined): Json {
  if (!isJsonObject(message) || !isJsonObject(message['content'])) return message;
  return { ...message, content: toFleetBlock(message['content'] as ContentBlock, authority) };
}
