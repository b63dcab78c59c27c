/** Prompts, resources and skills of MCP servers: their lists, and the requests that read and complete them. */
import { ProtocolError, ProtocolErrorCode, type Client, type RequestOptions } from '@modelcontextprotocol/client';
import { SkillsClient } from '@modelcontextprotocol/client/ext/skills';
import { isJsonObject, ToolError, type ContentBlock, type Json, type JsonObject } from '@toolfleet/contracts';
import { failedResponse, type DiscoverReply, type ExecResponse } from '@toolfleet/contracts/execution';
import { isNestedTooDeep, MAX_BODY_DEPTH } from '@toolfleet/contracts/json-text';
import { readFleetAddress } from '@toolfleet/contracts/resource-address';
import { pageDigest } from '@toolfleet/contracts/app-page';
import { resultDigest } from '@toolfleet/contracts/pinned-result';
import { isFileOf, toFleetSkill } from '@toolfleet/contracts/skill';
import { mcpMethod, type McpBinding } from '@toolfleet/contracts/tool-definition';
import { toFleetBlock, withFleetAddress } from './fleet-addresses.js';
import { classifyMcpError } from './mcp-error.js';
import { withInput } from './input-request.js';
import type { McpMessage } from './mcp-target.js';
import { ownMeta, unreadNote } from './tool-result.js';

/** Maximum number of prompts, and of skills, of one server. */
const MAX_PROMPTS = 1_000;
const MAX_SKILLS = 1_000;
/** Maximum length of a skill as JSON (a skill has up to 512 files) and of its address (`McpBinding.remoteName`). */
const MAX_SKILL_CHARS = 128 * 1024;
const MAX_SKILL_ADDRESS = 512;
/** Maximum number of reasons why skills are left out. */
const MAX_REFUSED = 20;
/** Maximum length of the listed resources and templates, and of the skills, as JSON. A server with more can be read by templates and links. */
const MAX_LISTED_CHARS = 2 * 1024 * 1024;

type ServerFeatures = Pick<DiscoverReply, 'prompts' | 'resources' | 'skills'>;

/**
 * Lists prompts, resources and skills, all pages, without a cache. A server that declares a list and then refuses it, or sends something
 * else, has none: its tools still work.
 */
export async function listFeatures(client: Client, options: RequestOptions): Promise<ServerFeatures> {
  const capabilities = client.getServerCapabilities();
  const request = { ...options, cacheMode: 'refresh' as const };
  const found: ServerFeatures = {};
  if (capabilities?.prompts) {
    const { prompts } = await orElse(client.listPrompts(undefined, request), { prompts: [] });
    found.prompts = toListed(prompts).slice(0, MAX_PROMPTS);
  }
  if (capabilities?.resources) {
    const { resources } = await orElse(client.listResources(undefined, request), { resources: [] });
    const templates = await orElse(client.listResourceTemplates(undefined, request), { resourceTemplates: [] });
    const room = { chars: MAX_LISTED_CHARS };
    const skills = new SkillsClient(client, { skipInvalid: true });
    found.resources = {
      resourceTemplates: takeWhileRoom(toListed(templates.resourceTemplates), room),
      resources: takeWhileRoom(toListed(resources), room),
      subscribe: capabilities.resources.subscribe === true,
      directoryRead: skills.directoryRead,
    };
    if (skills.supported) found.skills = await listSkills(skills, options);
  }
  return found;
}

async function listSkills(
  skills: SkillsClient,
  options: RequestOptions,
): Promise<NonNullable<ServerFeatures['skills']>> {
  const listed = await orElse(skills.list({}, options), { skills: [], invalid: [] });
  const room = { chars: MAX_LISTED_CHARS };
  const isSmall = (skill: JsonObject): boolean =>
    JSON.stringify(skill).length <= MAX_SKILL_CHARS && String(skill['uri']).length <= MAX_SKILL_ADDRESS;
  const taken = takeWhileRoom(toListed(listed.skills).filter(isSmall), room).slice(0, MAX_SKILLS);
  const known = new Set(taken.map(({ uri }) => uri));
  const tooLarge = listed.skills.filter(({ uri }) => !known.has(uri));
  const refused = [
    ...listed.invalid.map(({ uri = 'a skill', reason }) => `${uri}: ${reason}`),
    ...tooLarge.map(({ uri }) => `${uri}: it is too large, or the server has too many skills`),
  ];
  return { skills: taken, refused: refused.slice(0, MAX_REFUSED).map((reason) => reason.slice(0, 500)) };
}

/** Listed items, without members of `_meta` about the protocol or this fleet. */
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

/** The result of a request of the method of its binding. @throws whatever the SDK throws */
export async function requestFeature(
  client: Client,
  message: McpMessage,
  options: RequestOptions,
): Promise<JsonObject> {
  const { binding, arguments: args, input } = message;
  const method = mcpMethod(binding, args);
  const request = { ...options, cacheMode: 'bypass' as const, allowInputRequired: input !== undefined };
  if (method === 'completion/complete') return complete(client, binding, args, options);
  if (method === 'skills/get') return requireApproved(await getSkill(client, binding, options), 'skill', binding);
  if (method === 'resources/directory/read') return readDirectory(client, serverUri(binding, args), options);
  const asks = client.getProtocolEra() === 'modern' ? input : undefined;
  const toParams = <T extends object>(params: T): T => (asks ? withInput(params, asks) : params);
  const result =
    method === 'prompts/get'
      ? await client.getPrompt(toParams({ name: binding.remoteName, arguments: args['arguments'] as never }), request)
      : await client.readResource(toParams({ uri: serverUri(binding, args) }), request);
  if (method === 'prompts/get') return requireApproved(result as unknown as JsonObject, 'messages', binding);
  return requireApprovedContents(result as unknown as JsonObject, message);
}

/** A result with an approved part; questions to the caller have no such part. @throws ToolError TOOL_QUARANTINED */
function requireApproved(
  result: JsonObject,
  part: string,
  { digest, server, method, remoteName }: McpBinding,
): JsonObject {
  const found = result[part];
  if (digest === undefined || found === undefined || resultDigest(found) === digest) return result;
  throw notApproved(`${method === 'skills/get' ? 'skill' : 'text of the prompt'} ${remoteName}`, server);
}

/**
 * A resource as it was approved: a page of an MCP App with the tools that show it, a file of a skill with the skill. Questions to the caller
 * have no contents. @throws ToolError TOOL_QUARANTINED
 */
function requireApprovedContents(result: JsonObject, { approved, binding, arguments: args }: McpMessage): JsonObject {
  const { contents } = result;
  if (!approved || contents === undefined) return result;
  const { pages, skills } = approved;
  const uri = serverUri(binding, args);
  if (pages && !pages.includes(pageDigest(contents))) throw notApproved(`page ${uri.slice(0, 200)}`, binding.server);
  const isOfSkill = (content: Json): boolean =>
    isJsonObject(content) &&
    skills!.some(
      (skill) => isJsonObject(skill) && [uri, String(content['uri'])].some((name) => isFileOf(skill, name, content)),
    );
  if (skills && !(Array.isArray(contents) && contents.every(isOfSkill)))
    throw notApproved(`file ${uri.slice(0, 200)}`, binding.server);
  return result;
}

function notApproved(what: string, server: string): ToolError {
  return new ToolError('TOOL_QUARANTINED', {
    message: `The ${what} of the MCP server ${server} is not as approved: it has changed and awaits approval, or your key has no tool or skill with it`,
    details: { server },
  });
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

async function getSkill(client: Client, { remoteName }: McpBinding, options: RequestOptions): Promise<JsonObject> {
  const { skill } = await new SkillsClient(client).get(remoteName, options);
  return { skill: toListed([skill])[0]! };
}

/** The children of a directory, all pages. */
async function readDirectory(client: Client, uri: string, options: RequestOptions): Promise<JsonObject> {
  const skills = new SkillsClient(client);
  if (!skills.directoryRead)
    throw new ProtocolError(ProtocolErrorCode.InvalidParams, `${uri.slice(0, 200)} is not a directory resource`);
  const { resources } = await skills.readDirectory(uri, options);
  return { resources: toListed(resources) };
}

/** The address at the server. Callers may send the fleet's or the server's. */
function serverUri({ authority }: McpBinding, args: JsonObject): string {
  const address = String(args['uri']);
  const read = readFleetAddress(address);
  return read && read.authority === authority ? read.uri : address;
}

/**
 * A result as the outcome of an attempt: complete, but with addresses of the fleet, and without members about its exchange.
 * @param dropped parts that could not be read; a line at the end names them
 */
export function toFeatureResponse(
  result: JsonObject,
  { authority }: McpBinding,
  dropped: readonly string[] = [],
): ExecResponse {
  const { resultType: _type, cacheScope: _scope, _meta, messages, contents, resources, skill, ...rest } = result;
  if (isNestedTooDeep(result)) {
    const message = `The result is nested deeper than ${MAX_BODY_DEPTH} levels`;
    return failedResponse(new ToolError('RESULT_TOO_LARGE', { message }));
  }
  const output: JsonObject = rest;
  const meta = ownMeta(_meta);
  if (meta) output['_meta'] = meta;
  if (Array.isArray(messages)) output['messages'] = messages.map((message) => toFleetMessage(message, authority));
  if (Array.isArray(contents)) output['contents'] = contents.map((content) => withFleetAddress(content, authority));
  if (Array.isArray(resources)) output['resources'] = resources.map((child) => withFleetAddress(child, authority));
  if (isJsonObject(skill)) output['skill'] = toFleetSkill(skill, authority);
  if (dropped.length > 0) {
    const text = unreadNote(dropped);
    const { messages: shown, contents: read } = output as { messages?: Json[]; contents?: JsonObject[] };
    shown?.push({ role: 'user', content: { type: 'text', text } });
    read?.push({ uri: read[0]?.['uri'] ?? '', mimeType: 'text/plain', text });
  }
  return { ok: true, output, text: '', metadata: {} };
}

function toFleetMessage(message: Json, authority: string | undefined): Json {
  if (!isJsonObject(message) || !isJsonObject(message['content'])) return message;
  return { ...message, content: toFleetBlock(message['content'] as ContentBlock, authority) };
}
