import type { RequestOptions } from '@modelcontextprotocol/client';
import { isJsonObject, ToolError, type Json, type JsonObject, type Milliseconds } from '@toolfleet/contracts';
import { appPage, PAGE_DIGEST, pageDigest } from '@toolfleet/contracts/app-page';
import type { DiscoverMessage, DiscoverReply, RemoteTool } from '@toolfleet/contracts/execution';
import { asDoubles } from '@toolfleet/contracts/json-text';
import { RESULT_DIGEST, resultDigest, takesArguments } from '@toolfleet/contracts/pinned-result';
import type { Clock } from '@toolfleet/resilience';
import { RequestExchange, runWithLimits } from './exchange.js';
import { listFeatures } from './feature-request.js';
import { classifyMcpError } from './mcp-error.js';
import type { UpstreamSession } from './mcp-session.js';
import { readTarget, type McpTarget } from './mcp-target.js';
import type { SessionPool } from './session-pool.js';
import { ownMeta } from './tool-result.js';

/** Most tools of one server; more are a mistake, or an attack on the model's context window. */
const MAX_TOOLS = 5_000;
/** Maximum number of pages of MCP Apps, and of texts of prompts, of one server; others are not pinned. */
const MAX_PAGES = 100;
const MAX_TEXTS = 50;

/** Reads the target of a discovery. @throws ToolError REQUEST_INVALID, AUTH_NOT_CONFIGURED */
export function readDiscoveryTarget(message: DiscoverMessage): McpTarget {
  const { server, url, transport } = message;
  if (transport !== 'stdio' && url === undefined) throw new ToolError('REQUEST_INVALID', { message: 'url is missing' });
  const options: JsonObject = isJsonObject(message['options']) ? { ...message, ...message['options'] } : message;
  return readTarget(server, transport === 'stdio' ? 'stdio' : 'streamable-http', url ?? '', options);
}

/**
 * Lists all tools, prompts and resources of a server, all pages, without a cache.
 * @throws ToolError of the catalogue; AUTH_NOT_CONFIGURED with `state: auth_failed` when the credential is refused
 */
export async function discoverServer(
  target: McpTarget,
  pool: SessionPool,
  clock: Clock,
  limits: { timeoutMs: Milliseconds; signal?: AbortSignal },
): Promise<DiscoverReply> {
  for (let renewed = false; ; renewed = true) {
    let used: UpstreamSession | undefined;
    const exchange = new RequestExchange(true);
    try {
      return await runWithLimits(
        exchange,
        { idleMs: limits.timeoutMs, totalMs: limits.timeoutMs, signal: limits.signal },
        clock,
        () =>
          pool.use(target, '', (session) => {
            used = session;
            return listAll(session, target.server, exchange, limits.timeoutMs);
          }),
      );
    } catch (error) {
      const fault = classifyMcpError(error, target.server);
      if (fault.reconnect) pool.retire(target, used, true);
      if (!fault.reconnect || renewed) throw fault.error;
    }
  }
}

async function listAll(
  session: UpstreamSession,
  server: string,
  { signal, dropped }: RequestExchange,
  timeoutMs: Milliseconds,
): Promise<DiscoverReply> {
  const listed = await session.reader.listTools(undefined, {
    cacheMode: 'refresh',
    signal,
    timeout: timeoutMs + 5_000,
  });
  if (listed.tools.length > MAX_TOOLS) {
    throw new ToolError('RESULT_TOO_LARGE', {
      message: `The MCP server ${server} lists ${listed.tools.length} tools (max ${MAX_TOOLS})`,
    });
  }
  const ttl = (listed as { ttlMs?: unknown }).ttlMs;
  const options = { signal, timeout: timeoutMs + 5_000 };
  const features = await listFeatures(session.reader, options);
  // Limits in schemas are for validators: `"maximum": 18446744073709551615` of a server in Rust.
  const tools = listed.tools.map((tool) => toRemoteTool(asDoubles(tool) as unknown as JsonObject));
  if (features.resources) await addPageDigests(tools, session, options);
  if (features.prompts) features.prompts = await withTextDigests(features.prompts, session, options);
  return {
    server,
    protocol_version: session.client.getNegotiatedProtocolVersion() ?? 'unknown',
    prior: session.prior,
    ttl_ms: typeof ttl === 'number' && ttl > 0 ? ttl : 0,
    tools,
    notes: [...session.notes, ...dropped],
    ...features,
  };
}

/** Reads the pages that tools show as MCP Apps, each once, and notes their digests. A page that cannot be read has none. */
async function addPageDigests(
  tools: RemoteTool[],
  { reader }: UpstreamSession,
  options: RequestOptions,
): Promise<void> {
  const pages = new Set(tools.flatMap(({ listing }) => appPage(listing) ?? []));
  const digests = new Map<string, string>();
  // One after another: an exchange ends when the stream of its last request does.
  for (const uri of [...pages].slice(0, MAX_PAGES)) {
    const page = await reader.readResource({ uri }, { ...options, cacheMode: 'bypass' }).catch((error: unknown) => {
      if (options.signal?.aborted) throw error;
      return undefined;
    });
    if (page) digests.set(uri, pageDigest(page.contents as unknown as Json));
  }
  for (const tool of tools) {
    const digest = digests.get(appPage(tool.listing) ?? '');
    if (digest === undefined) continue;
    tool.listing = { ...tool.listing, _meta: { ...(tool.listing?.['_meta'] as JsonObject), [PAGE_DIGEST]: digest } };
  }
}

/**
 * Reads the texts of prompts without arguments and notes their digests. Each is read twice: a text that changes from request to request
 * cannot be pinned, and has none.
 */
async function withTextDigests(
  prompts: JsonObject[],
  { reader }: UpstreamSession,
  options: RequestOptions,
): Promise<JsonObject[]> {
  const read = async (name: string): Promise<string | undefined> => {
    const text = await reader.getPrompt({ name }, options).catch((error: unknown) => {
      if (options.signal?.aborted) throw error;
      return undefined;
    });
    return text && resultDigest(text.messages as unknown as Json);
  };
  let room = MAX_TEXTS;
  const digested: JsonObject[] = [];
  for (const prompt of prompts) {
    const name = String(prompt['name']);
    const isRead = !takesArguments(prompt) && (room -= 1) >= 0;
    const digest = isRead ? await read(name) : undefined;
    const isStable = digest !== undefined && (await read(name)) === digest;
    digested.push(
      isStable ? { ...prompt, _meta: { ...(prompt['_meta'] as JsonObject), [RESULT_DIGEST]: digest } } : prompt,
    );
  }
  return digested;
}

/** The fields a definition is made of. */
function toRemoteTool(tool: JsonObject): RemoteTool {
  const { name, title, description, inputSchema, outputSchema, annotations, icons } = tool;
  const listing: JsonObject = {};
  if (Array.isArray(icons) && icons.length > 0) listing['icons'] = icons;
  const meta = ownMeta(tool['_meta']);
  if (meta) listing['_meta'] = meta;
  return {
    name: String(name),
    description: typeof description === 'string' ? description : '',
    input_schema: isJsonObject(inputSchema) ? inputSchema : { type: 'object' },
    title: typeof title === 'string' ? title : undefined,
    output_schema: isJsonObject(outputSchema) ? outputSchema : undefined,
    annotations: isJsonObject(annotations) ? annotations : undefined,
    listing: Object.keys(listing).length > 0 ? listing : undefined,
  };
}
