import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import {
  CLIENT_CAPABILITIES_META_KEY,
  Client,
  SdkError,
  SdkErrorCode,
  type CallToolRequestOptions,
  type CallToolRequestParams,
  type ClientOptions,
  type ClientRequest,
  type JSONRPCMessage,
  type RequestOptions,
  type StandardSchemaV1,
  type Transport,
} from '@modelcontextprotocol/client';
import {
  getDefaultEnvironment,
  StdioClientTransport,
  type StdioServerParameters,
} from '@modelcontextprotocol/client/stdio';
import { isJsonObject, ToolError, type JsonObject, type PersonInput } from '@toolfleet/contracts';
import { toExactJson, unmarked } from '@toolfleet/contracts/json-text';
import { egressFetch, type EgressClient } from '@toolfleet/egress';
import type { Clock } from '@toolfleet/resilience';
import type { OpenSecret } from '@toolfleet/service';
import type { UserCredentials } from '@toolfleet/service/executor';
import { RequestExchange } from './exchange.js';
import { readRequestId, RepairingReadBuffer, toReadable, unpackExact } from './foreign-answer.js';
import { ScopedHttpTransport, type PostMessage } from './http-transport.js';
import { withInput } from './input-request.js';
import type { McpTarget, StdioOptions } from './mcp-target.js';
import type { CredentialStore } from './oauth/oauth-credential.js';
import { PlainCalls } from './plain-calls.js';
import { resultSchema } from './readable.js';
import {
  answerDiscover,
  fillOmitted,
  negotiation,
  only,
  onlyOpenRequest,
  readPrior,
  relayQuestions,
} from './session-messages.js';
import { TASKS_EXTENSION, type TaskMethod } from './server-task.js';
import { UserRequests } from './user-requests.js';
import { intercept, type Traffic, type WatchedConnection } from './traffic.js';

/** The parts of this process that sessions use. */
export interface SessionDeps {
  egress: EgressClient;
  /** For sessions with calls that may be held open; default: `egress`. */
  heldEgress?: EgressClient;
  /** For the notification streams of sessions (`STREAM_CONNECTIONS`); default: `egress`. */
  streamEgress?: EgressClient;
  clock: Clock;
  /** Expands `${VAR}` and opens secrets sealed for the registration. */
  expand: OpenSecret;
  /** Credentials outlive sessions. */
  credentials: CredentialStore;
  traffic: Traffic;
  /** For sources with calls that act as users. */
  users?: UserCredentials;
  /** Most bytes of one response when the registration sets no limit. */
  maxResponseBytes: number;
  /** Whether server processes may be started (local mode). */
  allowStdio: boolean;
  version: string;
}

/** A long-lived notification stream is cut at this size; the SDK reopens it. */
const MAX_STREAM_BYTES = 64 * 1024 * 1024;
/**
 * Connections of notification streams. A session keeps one as long as it is open, and one more while resources are subscribed to. They
 * are separate from requests', because the streams of a few sources with one origin would occupy all of these.
 */
export const STREAM_CONNECTIONS = { connectionsPerHost: 500, totalConnections: 500 };
/** Safety net behind the limits of each exchange that end earlier. */
const MAX_EXCHANGE_MS = 60 * 60_000;
/** Time of the SDK beyond the limit of the first request, in which that limit's own answer arrives. */
const DISCOVER_MARGIN_MS = 1_000;
/** Longest wait for the notification stream of a session with calls that may ask. Some servers send its headers with the first message. */
const STREAM_OPENING_MS = 1_000;
/** A list may be longer than one result. */
const MAX_LIST_BYTES = 16 * 1024 * 1024;
/** In the same folder as this file, both in the source and in the build. */
const GUARD = fileURLToPath(new URL(`./stdio-guard.${import.meta.url.endsWith('.ts') ? 'ts' : 'js'}`, import.meta.url));

/** Prefix of methods on their way through the SDK, because it applies its schemas and rules by method. */
const UNGATED = 'toolfleet/';

type MessageSchema = StandardSchemaV1<unknown, JsonObject>;
const isSchema = (value: object | undefined): value is MessageSchema => value !== undefined && '~standard' in value;

/** One connection to one server with one credential. */
export class UpstreamSession {
  /** The client for requests, with results as far as they can be read (`resultSchema`). */
  readonly reader: Client;

  private constructor(
    readonly client: Client,
    readonly target: McpTarget,
    private readonly connection: WatchedConnection,
    private readonly plain: PlainCalls,
    /** Calls that may ask, for questions on the stream of the session. */
    private readonly asking: Set<RequestExchange>,
    /** Requests that the server did not answer while the session was opened, as lines for an administrator. */
    readonly notes: readonly string[],
  ) {
    const request = (
      { method, ...call }: ClientRequest,
      ...rest: [MessageSchema | RequestOptions, RequestOptions?]
    ) => {
      const [schema, options] = isSchema(rest[0]) ? [rest[0], rest[1]] : [undefined, rest[0]];
      const read = schema ?? resultSchema(method, RequestExchange.active?.dropped);
      return client.request({ ...call, method: UNGATED + method }, read, options);
    };
    this.reader = Object.create(client, { request: { value: request } });
  }

  /**
   * Connects. Without a round trip when the server's protocol revision is known from an earlier session; otherwise with
   * `server/discover`, then `initialize`.
   * @throws whatever the SDK, the egress guard or the network throws; `classifyMcpError` reads it
   */
  static async open(
    target: McpTarget,
    { heldEgress, ...given }: SessionDeps,
    onListChanged: () => void,
    signal?: AbortSignal,
  ): Promise<UpstreamSession> {
    const deps = target.declared && heldEgress ? { ...given, egress: heldEgress } : given;
    const listChanged = { autoRefresh: false, onChanged: onListChanged };
    const options: ClientOptions = {
      capabilities: target.declared ?? {},
      ...negotiation(target),
      inputRequired: { autoFulfill: false },
      // A result that does not match its output schema does not fail the call.
      jsonSchemaValidator: {
        getValidator: () => (input) => ({ valid: true, data: input as never, errorMessage: undefined }),
      },
      listChanged: { tools: listChanged, prompts: listChanged, resources: listChanged },
    };
    const client = new Client({ name: 'toolfleet', version: deps.version }, options);
    client.onerror = () => undefined; // relevant errors reach the call they belong to
    const stream = Promise.withResolvers<void>();
    const transport =
      target.transport === 'stdio' ? stdioTransport(target, deps) : httpTransport(target, deps, stream.resolve);
    const plain = new PlainCalls(transport);
    // The SDK drops a line that it refuses, and its request would wait until its time-out. Added later than the calls: it sees their answers.
    if (transport instanceof StdioClientTransport)
      Reflect.set(transport, '_readBuffer', new RepairingReadBuffer(onlyOpenRequest(transport)));
    fillOmitted(transport, client);
    const asking = new Set<RequestExchange>();
    relayQuestions(transport, client, target.declared, () => RequestExchange.active ?? only(asking));
    const connection = deps.traffic.watch(transport, target.transport === 'stdio' ? undefined : target.url);
    sendUngated(transport);
    const notes = target.revision === undefined ? answerDiscover(transport, target.startMs, deps.clock) : [];
    intercept(transport, 'onmessage', unpackExact);
    try {
      const timeout = target.startMs + DISCOVER_MARGIN_MS;
      await client.connect(transport, { timeout, prior: readPrior(target), signal });
    } catch (error) {
      await client.close().catch(() => undefined);
      throw notStarted(target, error) ?? error;
    }
    connection.negotiated(client.getNegotiatedProtocolVersion());
    // A server may ask on this stream as soon as a call begins; it drops a question that it cannot send.
    if (target.declared && transport instanceof ScopedHttpTransport && client.getProtocolEra() === 'legacy')
      await Promise.race([stream.promise, deps.clock.sleep(STREAM_OPENING_MS)]);
    return new UpstreamSession(client, target, connection, plain, asking, notes);
  }

  /** Runs a call. Meanwhile, questions on the stream of the session are taken for the call's, if the session runs no other that may ask. */
  async serve<T>(exchange: RequestExchange, call: () => Promise<T>): Promise<T> {
    if (!this.target.declared) return call();
    this.asking.add(exchange);
    try {
      return await call();
    } finally {
      this.asking.delete(exchange);
    }
  }

  /**
   * The server's protocol revision, to store for the next connection: none of the server's prose, and nothing that
   * changes from response to response.
   */
  get prior(): JsonObject {
    const discovered = this.client.getDiscoverResult() as unknown;
    if (this.client.getProtocolEra() !== 'modern' || !isJsonObject(discovered)) return { kind: 'legacy' };
    const { supportedVersions = [], capabilities = {} } = discovered;
    const discover = { resultType: 'complete', ttlMs: 0, cacheScope: 'private', supportedVersions, capabilities };
    return { kind: 'modern', discover };
  }

  /**
   * Calls a tool. A server with tasks may answer with one (`readTask`).
   * @param input the caller's capabilities, and its answers, for servers of 2026-07-28
   * @returns the result as it arrived, for `toExecResponse`, or the server's question
   * @throws whatever the SDK, the egress guard or the network throws
   */
  callTool(params: CallToolRequestParams, options: CallToolRequestOptions, input?: PersonInput): Promise<object> {
    if (this.client.getProtocolEra() !== 'modern') {
      // The client adds the token of progress.
      if (options.signal && !options.onprogress) return this.plain.call(params, options.signal);
      return this.client.request({ method: 'tools/call', params }, resultSchema('tools/call'), options);
    }
    const extensions = this.offersTasks ? { [TASKS_EXTENSION]: {} } : undefined;
    // With a definition, the SDK neither applies the listed output schema nor repeats a call with headers that the server refused.
    const toolDefinition = options.toolDefinition ?? { name: params.name, inputSchema: { type: 'object' } };
    if (!input && !extensions) return this.reader.callTool(params, { ...options, toolDefinition });
    const asking = withInput(params, input ?? { capabilities: {} }, extensions);
    return this.reader.callTool(asking, { ...options, toolDefinition, allowInputRequired: true });
  }

  /** Sends a request about a task of the server. @throws whatever the SDK, the egress guard or the network throws */
  async requestTask(method: TaskMethod, params: JsonObject, options: RequestOptions): Promise<JsonObject> {
    const _meta = { [CLIENT_CAPABILITIES_META_KEY]: { extensions: { [TASKS_EXTENSION]: {} } } };
    const request = { method: UNGATED + method, params: { ...params, _meta } };
    return this.client.request(request, resultSchema(method), options);
  }

  private get offersTasks(): boolean {
    return isJsonObject(this.client.getServerCapabilities()?.extensions?.[TASKS_EXTENSION]);
  }

  /** Ends the session, also at the server if it keeps one. Never throws. */
  async close(): Promise<void> {
    const transport = this.client.transport;
    if (transport instanceof ScopedHttpTransport && transport.sessionId) {
      await transport.terminateSession().catch(() => undefined);
    }
    if (this.client.getProtocolEra() !== 'modern') this.connection.sessionEnded();
    await this.client.close().catch(() => undefined);
  }
}

function httpTransport(target: McpTarget, deps: SessionDeps, onStream: () => void): ScopedHttpTransport {
  const expand = (value: string): string => deps.expand(value, target.registration);
  const url = expand(target.url);
  deps.egress.check(url);
  const headers = Object.fromEntries(Object.entries(target.headers).map(([name, value]) => [name, expand(value)]));
  const credential = deps.credentials.get(target);
  const guarded = sessionFetch(target, deps, onStream);
  const user = target.user && deps.users && new UserRequests(target.user, deps.users);
  const options = {
    fetch: user ? user.wrap(guarded) : credential ? credential.wrap(guarded) : guarded,
    requestInit: { headers },
    redirectPolicy: 'same-origin',
    onInsufficientScope: 'throw',
    authProvider: credential,
  } as const;
  const post = sessionPost(url, target, deps);
  return new ScopedHttpTransport(new URL(url), options, user ? user.post(post) : credential ? undefined : post);
}

/** The guarded POST of a call. The exchange's own timers end it: no limit of the request would come first. */
function sessionPost(url: string, target: McpTarget, deps: SessionDeps): PostMessage {
  const timeouts = { headersMs: null, bodyIdleMs: null, totalMs: null };
  const maxBytes = target.maxResponseBytes ?? deps.maxResponseBytes;
  return (body, headers, signal) =>
    deps.egress.request({ url, method: 'POST', headers, body, signal, timeouts, maxBytes });
}

/**
 * The guarded fetch with limits by kind of exchange: a call, a list, or a notification stream.
 * @param onStream called when the server has answered a request for a notification stream
 */
function sessionFetch(target: McpTarget, deps: SessionDeps, onStream: () => void): typeof fetch {
  const maxBytes = target.maxResponseBytes ?? deps.maxResponseBytes;
  const noteStreamError = () => {
    const exchange = RequestExchange.active;
    return (error: unknown): void => {
      if (exchange) exchange.streamError = error;
    };
  };
  const send = egressFetch(deps.egress, (_url, init) => ({
    // The exchange's own timers end a call: a JSON response sends its headers only when the tool is done.
    timeouts: { headersMs: null, bodyIdleMs: null, totalMs: MAX_EXCHANGE_MS },
    maxBytes: RequestExchange.active?.isList ? Math.max(maxBytes, MAX_LIST_BYTES) : maxBytes,
    onBodyError: noteStreamError(),
    onResponse: (response) => toReadable(response, () => readRequestId(init.body)),
  }));
  const openStream = egressFetch(deps.streamEgress ?? deps.egress, () => ({
    timeouts: { headersMs: target.startMs, bodyIdleMs: null, totalMs: null },
    maxBytes: MAX_STREAM_BYTES,
    onBodyError: noteStreamError(),
    onResponse: (response) => toReadable(response, () => undefined),
  }));
  return async (input, init) =>
    RequestExchange.active?.takeAnswer() ??
    (opensStream(init) ? openStream(input, init).finally(onStream) : send(input, withDigits(init)));
}

/** A request with the digits of large integers in its body. */
function withDigits(init: RequestInit | undefined): RequestInit | undefined {
  return typeof init?.body === 'string' ? { ...init, body: unmarked(init.body) } : init;
}

/** Whether a request opens a notification stream: GET in 2025, `subscriptions/listen` in 2026. */
function opensStream({ method = 'GET', headers }: RequestInit = {}): boolean {
  return method === 'GET' || new Headers(headers).get('mcp-method') === 'subscriptions/listen';
}

function stdioTransport(target: McpTarget, deps: SessionDeps): StdioClientTransport {
  if (!deps.allowStdio || !target.stdio) {
    throw new ToolError('EGRESS_REFUSED', {
      message: `The MCP server ${target.server} is a local process; local processes run in local mode only`,
    });
  }
  const command = guardedCommand(target.stdio, (value) => deps.expand(value, target.registration));
  const transport = new StdioClientTransport(command);
  transport.send = (message) => writeLine(transport, message);
  return transport;
}

/** Writes a message as the SDK does, but with the digits of large integers. */
async function writeLine(transport: StdioClientTransport, message: JSONRPCMessage): Promise<void> {
  const { stdin } = (Reflect.get(transport, '_process') as ChildProcess | undefined) ?? {};
  if (!stdin) throw new SdkError(SdkErrorCode.NotConnected, 'Not connected');
  if (!stdin.write(`${unmarked(toExactJson(message))}\n`)) await once(stdin, 'drain');
}

/**
 * The command line of a local server under the guard process (`stdio-guard.ts`); it ends the server's whole process group
 * when this process ends in any way, and when the server uses too much memory. The server sees only the variables it was given.
 */
function guardedCommand(options: StdioOptions, expand: (value: string) => string): StdioServerParameters {
  const env = Object.fromEntries(Object.entries(options.env).map(([name, value]) => [name, expand(value)]));
  return {
    command: process.execPath,
    args: [GUARD, String(options.memoryLimitMb), options.command, ...options.args.map(expand)],
    env: { ...getDefaultEnvironment(), ...env },
    stderr: 'ignore',
    cwd: options.cwd,
  };
}

/** Why a server has no session; undefined for errors that say it themselves. The SDK reports only that a process ended, or a time-out. */
function notStarted({ server, stdio, startMs }: McpTarget, cause: unknown): ToolError | undefined {
  const code = cause instanceof SdkError ? cause.code : undefined;
  const isLate = code === SdkErrorCode.RequestTimeout;
  if (!isLate && !(stdio && code === SdkErrorCode.ConnectionClosed)) return undefined;
  const message = isLate
    ? `The MCP server ${server} did not answer within ${startMs / 1_000} s of its start; raise start_seconds of the source if it needs longer`
    : `The local MCP server ${server} cannot be started or exits at once: ${stdio?.command}`;
  return new ToolError(isLate ? 'ATTEMPT_TIMED_OUT' : 'NETWORK_ERROR', {
    message,
    details: { server },
    facts: { delivered: false },
    cause,
  });
}

/** Sends the methods of tasks; the SDK refuses to send them in 2026-07-28 because 2025-11-25 has methods with their names. */
function sendUngated(transport: Transport): void {
  const send = transport.send.bind(transport);
  transport.send = (message, options) =>
    'method' in message && message.method.startsWith(UNGATED)
      ? send({ ...message, method: message.method.slice(UNGATED.length) }, options)
      : send(message, options);
}
