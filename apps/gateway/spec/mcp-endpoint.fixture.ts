/** An MCP endpoint over a scripted engine, and clients for it: for the specs in this folder. */
import type { AddressInfo } from 'node:net';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import {
  failedWith,
  succeeded,
  ToolError,
  type CallRequest,
  type CallResult,
  type JsonObject,
  type Principal,
  type Succeeded,
} from '@toolfleet/contracts';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { SystemClock } from '@toolfleet/resilience';
import Fastify from 'fastify';
import { Projects, SignedTokens } from '@toolfleet/access';
import { CallCancellations, sealedStates } from '@toolfleet/mcp';
import { createMetrics, OTHER_LABEL } from '@toolfleet/telemetry';
import type { McpEndpointDeps, McpEndpointOptions } from '../src/mcp/endpoint-deps.js';
import { McpEndpoint } from '../src/mcp/mcp-endpoint.js';
import { BodyReader } from '../src/server/body-reader.js';

const clock = new SystemClock();
const tokens = new SignedTokens('0123456789abcdef0123456789abcdef', clock);
const closers: (() => Promise<unknown> | unknown)[] = [];
/** Stops everything the fixture started; for `afterEach`. */
export async function closeAll(): Promise<void> {
  for (const close of closers.splice(0).toReversed()) await close();
}

/** Registers what `closeAll` stops. */
export const closing = (close: () => Promise<unknown> | unknown): unknown => closers.push(close);

const principals: Record<string, Principal> = {
  alice: { tenantId: 'acme', userId: 'alice', roles: [], tools: ['*'], via: 'api_key' },
  coder: { tenantId: 'acme', userId: 'coder', roles: [], tools: ['*'], via: 'api_key', mcpMode: 'code' },
  bob: { tenantId: 'other', userId: 'bob', roles: [], tools: ['echo'], via: 'api_key' },
};

export function tool(name: string, more: Partial<RegisteredTool> = {}): RegisteredTool {
  return {
    name,
    version: '1.0.0',
    description: `Tool ${name}`,
    category: 'test',
    input_schema: { type: 'object', properties: { text: { type: 'string' } } },
    binding: { kind: 'builtin', toolset: 'compute', handler: name },
    source: { kind: 'builtin', name: 'builtin' },
    revision: '1',
    available: true,
    ...more,
  };
}
export const TOOLS = [
  tool('echo', { idempotent: true, output_schema: { type: 'object' } }),
  tool('slow', { task_support: 'optional' }),
  tool('careful'),
  tool('long'),
].toSorted((a, b) => (a.name < b.name ? -1 : 1));

/** Calls of `held` wait for this. */
let held = Promise.resolve();

/** Holds calls of `held` until the returned function is called. */
export function holdCalls(): () => void {
  let release = (): void => undefined;
  held = new Promise((resolve) => {
    release = resolve;
  });
  return release;
}

/** What the policy wants a person to approve before `careful` runs. */
export const QUESTION = 'Really delete everything?';

export const success = (output: CallResult['output'], text = ''): Succeeded => succeeded({ output, text, attempts: 1 });

/** The scripted engine: the outcome by tool name. */
async function engine(request: CallRequest): Promise<CallResult> {
  if (request.mode.kind === 'refused') throw request.mode.reason;
  switch (request.target.toolName) {
    case 'echo':
      return success({ echoed: request.input.rawArguments }, JSON.stringify(request.input.rawArguments));
    case 'run_program':
      return success({ value: request.input.rawArguments['code'] ?? null });
    case 'null':
      return success(null);
    case 'rich':
      return {
        ...success('words', 'words'),
        content: [
          { type: 'text', text: 'words' },
          { type: 'image', data: 'AA==', mimeType: 'image/png' },
        ],
      };
    case 'fails':
      return failedWith({
        code: 'UPSTREAM_ERROR',
        errorType: 'upstream_error',
        message: 'HTTP 404: no such order',
        retryable: false,
      });
    case 'broke':
      throw new ToolError('BUDGET_EXCEEDED', { message: 'Budget exceeded' });
    case 'wrong':
      throw new ToolError('ARGUMENTS_INVALID', { message: 'text must be a string', details: { fields: ['text'] } });
    case 'slow':
      for (let step = 1; step <= 3; step += 1) {
        await clock.sleep(20, request.signal);
        request.onProgress?.({ progress: step, total: 3, message: `step ${step}` });
      }
      return success('done', 'done');
    case 'long':
      await clock.sleep(5_000, request.signal);
      return success('late', 'late');
    case 'held':
      await held;
      return success('held', 'held');
    case 'careful':
      if (!request.approval?.given?.questions.includes(QUESTION)) {
        throw new ToolError('APPROVAL_REQUIRED', {
          facts: { approval: { questions: [QUESTION], revision: REVISION, by: 'entry' } },
        });
      }
      return success('deleted', 'deleted');
    default:
      throw new ToolError('TOOL_NOT_FOUND', { message: `Tool '${request.target.toolName}' not found` });
  }
}

/** Revision of the definition of `careful`. */
const REVISION = 'r1';

/** The rest of a fleet, in which nothing happens. */
const IDLE = {
  toolsetInstructions: async () => undefined,
  endCall: () => undefined,
  watchGrant: () => ({ changed: async () => false, stop: () => undefined }),
  refusalOf: async () => undefined,
  onFault: () => undefined,
  countCalls: async () => undefined,
  selectToolset: (principal: Principal) => principal,
  onCatalogChanged: () => () => undefined,
  cancellations: new CallCancellations(clock, { publish: () => undefined, subscribe: () => undefined as never }),
  projects: new Projects(),
  streams: { enter: () => () => undefined },
  metrics: {
    durations: createMetrics({ version: '0', revision: '0' }).mcpServerDuration,
    toolLabel: () => OTHER_LABEL,
  },
} satisfies Partial<McpEndpointDeps>;

interface ServedEndpoint {
  url: string;
  port: number;
  /** Calls that reached the engine. */
  seen: CallRequest[];
  stop: () => Promise<void>;
}

export async function serveEndpoint(
  deps: Partial<McpEndpointDeps> = {},
  options: Partial<McpEndpointOptions> = {},
): Promise<ServedEndpoint> {
  const fastify = Fastify({ forceCloseConnections: true });
  fastify.decorate('bodies', new BodyReader(clock));
  const seen: CallRequest[] = [];
  const endpoint = new McpEndpoint(
    {
      authenticate: async (rawHeaders) => {
        const at = rawHeaders.findIndex((name) => name.toLowerCase() === 'authorization');
        const principal = principals[String(rawHeaders[at + 1]).replace('Bearer ', '')];
        if (at < 0 || !principal) throw new ToolError('UNAUTHENTICATED');
        return principal;
      },
      listTools: async () => TOOLS,
      executeCall: (request) => {
        seen.push(request);
        return engine(request);
      },
      searchTools: async (_principal, query, limit) => TOOLS.filter(({ name }) => query.includes(name)).slice(0, limit),
      requestState: sealedStates(tokens, clock),
      clock,
      ...IDLE,
      ...deps,
    },
    {
      version: '1.2.3',
      maxCallMs: 10_000,
      listTtlMs: 300_000,
      maxBodyBytes: 1_000_000,
      surface: 'list',
      searchAbove: 200,
      inlineBytes: Number.POSITIVE_INFINITY,
      issuer: 'https://login.example',
      ...options,
    },
  );
  await endpoint.mount(fastify);
  await fastify.listen({ port: 0, host: '127.0.0.1' });
  const { port } = fastify.server.address() as AddressInfo;
  const stop = async () => {
    await endpoint.close();
    fastify.server.closeAllConnections();
    await fastify.close();
  };
  closers.push(stop);
  return { url: `http://127.0.0.1:${port}/mcp`, port, seen, stop };
}

export async function connect(
  url: string,
  { who = 'alice', mode = 'auto' as 'auto' | 'legacy', capabilities = {} } = {},
): Promise<Client> {
  const client = new Client(
    { name: 'spec', version: '1' },
    { versionNegotiation: { mode }, capabilities, inputRequired: { autoFulfill: true } },
  );
  await client.connect(
    new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { Authorization: `Bearer ${who}` } } }),
  );
  closers.push(() => client.close());
  return client;
}

export const call = (client: Client, name: string, args: JsonObject = {}, meta?: JsonObject) =>
  client.callTool({ name, arguments: args, _meta: meta });

/** The result or the error of a `tools/call` of a 2026 client that shows forms, as one POST. @param more parameters besides name and arguments */
export async function callOnce(
  url: string,
  name: string,
  args: JsonObject,
  { who = 'alice', ...more }: JsonObject & { who?: string } = {},
): Promise<JsonObject> {
  const _meta = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientCapabilities': { elicitation: { form: {} } },
  };
  const response = await fetch(url, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${who}`,
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'tools/call',
      'mcp-name': name,
    },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: { name, arguments: args, _meta, ...more },
    }),
  });
  const { result, error } = (await response.json()) as { result?: JsonObject; error: JsonObject };
  return result ?? error;
}
