/** Prompts, resources and skills of MCP servers, as one client sees them. Requests for them run through the engine as calls of tools do. */
import {
  ProtocolError,
  ProtocolErrorCode,
  ResourceNotFoundError,
  type CallToolResult,
  type ServerContext,
} from '@modelcontextprotocol/server';
import {
  isJsonObject,
  toToolError,
  type CallRequest,
  type CallResult,
  type JsonObject,
  type Principal,
} from '@toolfleet/contracts';
import { readFleetAddress, toFleetAddress } from '@toolfleet/contracts/resource-address';
import { toFleetSkill } from '@toolfleet/contracts/skill';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import type { ClientFeatures } from './client-features.js';
import { runAsking, toAsking, type AskedClient } from './input-request.js';
import type { McpServerDeps } from './server-deps.js';
import { renderRefusal, renderResult } from './render-result.js';
import type { Exchange } from './session.js';
import { SERVER_ERROR } from './rpc-errors.js';
import { clientCallRequest, notifyProgress, readMetaFields } from './tool-call.js';

/** Items per page of a list. */
const PAGE_ITEMS = 1_000;
/** Members of results that no client may reuse: only the server knows how long they are valid. */
export const UNCACHED = { ttlMs: 0, cacheScope: 'private' as const };
/** JSON-RPC code of a resource that does not exist, in revisions before 2026-07-28. */
const NOT_FOUND = -32_002;

/** JSON-RPC codes about headers, capabilities and revision of the exchange with the server, not with the client. */
const OF_EXCHANGE: ReadonlySet<number> = new Set([-32_020, -32_021, -32_022]);

/** Features that one caller may use, as lists show them. */
interface Features {
  prompts: readonly JsonObject[];
  resources: readonly JsonObject[];
  resourceTemplates: readonly JsonObject[];
  skills: readonly JsonObject[];
  /** The definition of a prompt by its listed name. */
  prompt(name: string): RegisteredTool | undefined;
  /** The server of a resource or template, and its address there. */
  resource(address: string): { definition: RegisteredTool; uri: string } | undefined;
  /** The definition of a skill by its address (of its main file). */
  skill(address: string): RegisteredTool | undefined;
}

/** Keyed by the list of definitions, replaced but never changed. */
const rendered = new WeakMap<readonly RegisteredTool[], Features>();

/** The prompts, resources and skills that a caller sees. */
export async function openFeatures(deps: McpServerDeps, principal: Principal): Promise<Features> {
  const definitions = (await deps.listFeatures?.(principal)) ?? [];
  let features = rendered.get(definitions);
  if (!features) rendered.set(definitions, (features = renderFeatures(definitions)));
  return features;
}

function renderFeatures(definitions: readonly RegisteredTool[]): Features {
  const prompts = new Map<string, RegisteredTool>();
  const skills = new Map<string, RegisteredTool>();
  const servers: RegisteredTool[] = [];
  for (const one of definitions) {
    if (one.binding.kind !== 'mcp') continue;
    const { method, remoteName, authority } = one.binding;
    if (method === 'prompts/get') prompts.set(one.name.replace(/^prompt:/, ''), one);
    else if (method === 'skills/get') skills.set(toFleetAddress(remoteName, authority), one);
    else servers.push(one);
  }
  return {
    prompts: [...prompts].map(([name, { listing }]) => ({ ...listing, name })),
    resources: servers.flatMap((server) => listed(server, 'resources', 'uri')),
    resourceTemplates: servers.flatMap((server) => listed(server, 'resourceTemplates', 'uriTemplate')),
    skills: [...skills.values()].map((one) => toFleetSkill(skillOf(one), authorityOf(one))),
    prompt: (name) => prompts.get(name),
    resource: (address) => findResource(servers, address),
    skill: (address) => skills.get(address),
  };
}

/** A list of a server with addresses of the fleet. */
function listed(server: RegisteredTool, list: 'resources' | 'resourceTemplates', field: string): JsonObject[] {
  return itemsOf(server, list).map((item) => ({
    ...item,
    [field]: toFleetAddress(String(item[field]), authorityOf(server)),
  }));
}

/** A skill as it was approved, with the addresses of its server. */
function skillOf({ listing }: RegisteredTool): JsonObject {
  return isJsonObject(listing?.['skill']) ? listing['skill'] : {};
}

function itemsOf({ listing }: RegisteredTool, list: 'resources' | 'resourceTemplates'): JsonObject[] {
  const items = listing?.[list];
  return Array.isArray(items) ? items.filter(isJsonObject) : [];
}

function authorityOf({ binding }: RegisteredTool): string | undefined {
  return binding.kind === 'mcp' ? binding.authority : undefined;
}

function findResource(servers: readonly RegisteredTool[], address: string): ReturnType<Features['resource']> {
  const read = readFleetAddress(address);
  const owner = read && servers.find((server) => authorityOf(server) === read.authority);
  if (owner) return { definition: owner, uri: read.uri };
  // Servers without a prefix keep their addresses.
  const plain = servers.filter((server) => authorityOf(server) === undefined);
  const definition = plain.length > 1 ? plain.find((server) => knows(server, address)) : plain[0];
  return definition && { definition, uri: address };
}

/** Whether a server lists an address, or a template that begins like it. */
function knows(server: RegisteredTool, address: string): boolean {
  const begins = ({ uriTemplate }: JsonObject): boolean => {
    const literal = String(uriTemplate).split('{', 1)[0]!;
    return literal !== '' && address.startsWith(literal);
  };
  return (
    itemsOf(server, 'resources').some(({ uri }) => uri === address) || itemsOf(server, 'resourceTemplates').some(begins)
  );
}

/** A page of a list. @throws ProtocolError -32602 for an unknown cursor */
export function pageOf<T>(items: readonly T[], cursor: string | undefined): { items: T[]; nextCursor?: string } {
  const from = cursor === undefined ? 0 : Number(cursor);
  if (cursor !== undefined && !(/^\d{1,9}$/.test(cursor) && from < items.length))
    throw new ProtocolError(ProtocolErrorCode.InvalidParams, 'Unknown cursor; list again from the start');
  const end = from + PAGE_ITEMS;
  const page = { items: items.slice(from, end) };
  return end < items.length ? { ...page, nextCursor: String(end) } : page;
}

/** The client of a request. */
export interface FeatureCaller extends AskedClient {
  principal: Principal;
  exchange: Exchange | undefined;
  features: ClientFeatures;
}

/**
 * Runs a request for a prompt or resource as a call, and returns its result as the server sent it. A person approves it or gives input as for a
 * tool.
 * @param args parameters of the method; with `argument` it is a completion
 * @param options `address` of a resource, for the error of one that does not exist; `dryRun` checks the request without asking a person
 * @throws ProtocolError of the server, or with the failure of the call in `data`
 */
export async function callFeature(
  client: FeatureCaller,
  { name }: RegisteredTool,
  args: JsonObject,
  context: ServerContext,
  { address, dryRun }: { address?: string; dryRun?: true } = {},
): Promise<JsonObject> {
  const { deps, principal, exchange, features, isModern } = client;
  const { signal, _meta } = context.mcpReq;
  // The other fields change the shape of the result, or are for effects.
  const { request_id, agent_id, task_id, timeout_ms } = readMetaFields(isJsonObject(_meta) ? _meta : {});
  const fields = { request_id, agent_id, task_id, timeout_ms, dry_run: dryRun };
  const progress = notifyProgress(context, deps.clock);
  // The protocol has no questions while an argument is completed.
  const asking = args['argument'] === undefined && !dryRun ? toAsking(deps, features, isModern) : {};
  const buildRequest = (): CallRequest => ({
    ...clientCallRequest({ name, arguments: args, principal, exchange, signal }, fields, deps),
    onProgress: progress?.report,
    ...asking,
  });
  try {
    const result = await runAsking(client, context, {
      binding: { principal, tool: name, arguments: args },
      begun: { request: buildRequest() },
      build: buildRequest,
      run: async (request) => readResult(request.callId, await deps.executeCall(request), address),
      refuse: (request, error) => {
        if (error instanceof ProtocolError) throw error;
        throw toRpcError(renderRefusal(request.callId, name, toToolError(error)));
      },
    });
    return result as JsonObject;
  } finally {
    progress?.stop();
  }
}

function readResult(callId: string, result: CallResult, address: string | undefined): JsonObject {
  if (result.ok) return isJsonObject(result.output) ? result.output : {};
  const { message, facts } = result.failure;
  if (facts?.rpcCode === NOT_FOUND && address !== undefined) throw new ResourceNotFoundError(address, message);
  if (facts?.rpcCode !== undefined && !OF_EXCHANGE.has(facts.rpcCode)) throw new ProtocolError(facts.rpcCode, message);
  throw toRpcError(renderResult(callId, result));
}

/** The failure of a call as an error, with what results of tools have in `_meta`. */
function toRpcError({ content, _meta }: CallToolResult): ProtocolError {
  const [first] = content;
  return new ProtocolError(SERVER_ERROR, first?.type === 'text' ? first.text : 'The request failed', _meta);
}
