import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import {
  createMcpHandler,
  INVALID_REQUEST,
  type McpHandlerRequestOptions,
  type McpHttpHandler,
  type McpRequestContext,
} from '@modelcontextprotocol/server';
import { errorBody } from '@toolfleet/contracts/wire';
import {
  CATALOGUE,
  isJsonObject,
  isToolError,
  toToolError,
  type Json,
  type JsonObject,
  type Principal,
} from '@toolfleet/contracts';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { challenge, protectedResourceMetadata, PROJECT_HEADER } from '@toolfleet/access';
import {
  answerPlainRequest,
  CatalogRenderer,
  createMcpServer,
  exchangeSession,
  findSubscribable,
  ListenBus,
  newSessionId,
  Operation,
  readCancellableId,
  readCancelledIds,
  readListened,
  readPlainRequest,
  readSession,
  readStreamSession,
  requestClient,
  RequestContext,
  requestFeatures,
  selectReadable,
  withListened,
  type Exchange,
  type FleetMcpServer,
  type McpSession,
} from '@toolfleet/mcp';
import { AbortSource, onAbort } from '@toolfleet/resilience';
import type { Mounted } from '../server/gateway-server.js';
import { takeOverReply, writeJson } from '../server/connections.js';
import { waitedMs } from '../server/late-requests.js';
import { leaveUnread, readBody } from '../server/request-body.js';
import type { McpEndpointDeps, McpEndpointOptions, McpRequestDeps } from './endpoint-deps.js';
import {
  AUTHORIZATION_SERVER_PATHS,
  checkOrigin,
  issuersOf,
  MCP_PATH,
  MCP_ROUTES,
  METADATA_PATHS,
  metadataUrl,
  noOAuthBody,
  OWN_SERVER_PATHS,
  readToolset,
  readView,
  resourceUrl,
} from './request-access.js';
import { errorResponse, toWebRequest, withObjectArguments, writeWebResponse, type RpcError } from './web-bridge.js';

const SERVER_ERROR = -32_000;
/** Interval at which draining checks for calls in flight. */
const POLL_MS = 20;

/** A request after `admit`: its caller is authenticated and may use its project. */
type AdmittedRequest = FastifyRequest & { mcpCaller?: Principal; exchange?: Exchange; operation?: Operation };

/**
 * The MCP endpoint on the gateway's HTTP server: stateless, for both protocol revisions, so that any replica can answer any
 * request. One request goes through `admit` (origin, credential), `serve` (body, fast path) and, unless the fast path answers
 * it, through the SDK with a server built for this request alone. The protected methods let a subclass serve what no fleet
 * has; the conformance server in test/mcp adds its fixtures there.
 */
export class McpEndpoint implements Mounted {
  protected readonly deps: McpRequestDeps;
  private readonly inline = new CatalogRenderer('inline');
  protected readonly handler: McpHttpHandler;
  private readonly unsubscribe: () => void;
  private readonly bus: ListenBus;
  private inFlight = 0;

  constructor(deps: McpEndpointDeps, options: McpEndpointOptions) {
    const executeCall: McpEndpointDeps['executeCall'] = async (request) => {
      this.inFlight += 1;
      try {
        return await deps.executeCall(request);
      } finally {
        this.inFlight -= 1;
      }
    };
    this.deps = { ...deps, executeCall, options, renderer: new CatalogRenderer() };
    this.bus = new ListenBus(deps.onFault);
    this.handler = createMcpHandler((request) => this.createServer(request), {
      bus: this.bus,
      maxRequestBodySize: options.maxBodyBytes,
      legacy: 'stateless',
    });
    this.unsubscribe = deps.onCatalogChanged(() => {
      this.handler.notify.toolsChanged();
      if (!deps.listFeatures) return;
      this.handler.notify.promptsChanged();
      this.handler.notify.resourcesChanged();
    });
  }

  /** Adds the routes. Call it before the server listens. */
  async mount(fastify: FastifyInstance): Promise<void> {
    const { options } = this.deps;
    await fastify.register(async (scope) => {
      this.serveBy(scope, MCP_ROUTES);
      for (const url of METADATA_PATHS) {
        scope.get(url, (request, reply) => {
          const toolset = readToolset(request);
          const resource = metadataUrl(request.raw, options) && resourceUrl(request.raw, options, toolset);
          if (resource !== undefined)
            return reply.send(protectedResourceMetadata(resource, issuersOf(request.raw, options)));
          return reply.code(404).send(noOAuthBody(options));
        });
      }
      const unserved = options.signIn ? [] : OWN_SERVER_PATHS;
      for (const url of [...unserved, ...AUTHORIZATION_SERVER_PATHS]) {
        scope.route({
          method: ['GET', 'POST'],
          url,
          config: { admitsCallers: true },
          // Before the body is read.
          onRequest: async (request, reply) => {
            leaveUnread(request.raw, reply.raw, this.deps.clock);
            return reply.code(404).send(noOAuthBody(options));
          },
          handler: (_request, reply) => reply,
        });
      }
    });
  }

  async mountCalls(fastify: FastifyInstance): Promise<void> {
    await fastify.register(async (scope) => this.serveBy(scope, [MCP_PATH]));
  }

  private serveBy(scope: FastifyInstance, urls: readonly string[]): void {
    const { options, onFault } = this.deps;
    // The body stays a buffer: the SDK words the error for a body that is not JSON.
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser('*', { parseAs: 'buffer', bodyLimit: options.maxBodyBytes }, (_request, body, done) =>
      done(null, body),
    );
    for (const url of urls) {
      scope.route({
        method: ['GET', 'POST', 'DELETE'],
        url,
        config: { admitsCallers: true },
        // Before the body is read: the body of an unauthenticated request costs nothing.
        onRequest: (request, reply) => this.admit(request, reply),
        handler: (request, reply) => takeOverReply(reply, (out) => this.serve(request, out), onFault),
      });
    }
  }

  /** Lets running calls finish, then ends the open streams. */
  async drain(): Promise<void> {
    while (this.inFlight > 0) await this.deps.clock.sleep(POLL_MS);
    await this.close();
  }

  /** Ends the open streams at once. */
  async close(): Promise<void> {
    this.unsubscribe();
    this.deps.sessions?.close();
    await this.handler.close();
  }

  /** The SDK server for one request. */
  protected createServer(request: McpRequestContext): Promise<FleetMcpServer> {
    return createMcpServer(this.depsFor(request.requestInfo?.url), request);
  }

  /** The response to a request that needs the SDK. */
  protected respond(request: Request, options: McpHandlerRequestOptions): Promise<Response> {
    return this.handler.fetch(request, options);
  }

  /** The response of the fast path as JSON; undefined when the request needs the SDK. */
  protected async answerFast(
    { raw, mcpCaller, exchange, operation }: AdmittedRequest,
    body: Json | undefined,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const plain = readPlainRequest(raw.headers, body);
    if (!plain || !mcpCaller) return undefined;
    const features = requestFeatures(raw.headers, body);
    const sender = { principal: mcpCaller, exchange, features, signal, operation };
    return answerPlainRequest(this.depsFor(raw.url), sender, plain);
  }

  /** @throws ToolError REQUEST_INVALID when the URL names an unknown style of schemas, or an unknown mode */
  private depsFor(url: string | undefined): McpRequestDeps {
    const { style, mode } = readView(url);
    if (style === 'defs' && mode === undefined) return this.deps;
    return { ...this.deps, mode, renderer: style === 'inline' ? this.inline : this.deps.renderer };
  }

  /** Authenticates a request by its headers, or refuses it. */
  private async admit(request: AdmittedRequest, reply: FastifyReply): Promise<FastifyReply | undefined> {
    const { deps } = this;
    const { raw } = request;
    const refuse = (status: number, body: object): FastifyReply => {
      leaveUnread(raw, reply.raw, deps.clock);
      return reply.code(status).header('content-type', 'application/json').send(JSON.stringify(body));
    };
    const foreign = checkOrigin(raw.headers, raw.socket.localAddress, deps.options);
    if (foreign !== undefined) return refuse(403, errorResponse(undefined, SERVER_ERROR, foreign));
    try {
      const caller = await deps.authenticate(raw.rawHeaders);
      request.mcpCaller = await deps.selectToolset(caller, readToolset(request));
      request.exchange = this.readExchange(raw, request.mcpCaller);
      return undefined;
    } catch (error) {
      const known = toToolError(error);
      if (!isToolError(error)) deps.onFault(error);
      if (known.code === 'UNAUTHENTICATED')
        void reply.header('WWW-Authenticate', challenge(metadataUrl(raw, deps.options, readToolset(request))));
      const body = isToolError(error) ? errorBody(known) : { error: 'Internal error', code: 'INTERNAL' };
      return refuse(CATALOGUE[known.code].http, body);
    }
  }

  /** @throws ToolError PERMISSION_DENIED when the header `X-Project-Id` names a project that the credential may not use */
  private readExchange(request: IncomingMessage, principal: Principal): Exchange {
    const { headers } = request;
    const named = headers[PROJECT_HEADER];
    const id = named === undefined ? undefined : String(named);
    return {
      session: exchangeSession(headers),
      project: this.deps.projects.choose(principal, 'public', { id }),
      waitedMs: waitedMs(request),
    };
  }

  private async serve(request: AdmittedRequest, out: ServerResponse): Promise<void> {
    const { raw } = request;
    const bytes = Buffer.isBuffer(request.body) ? request.body : undefined;
    // A GET is a stream that lasts as long as its session, so it gets no trace.
    if (raw.method !== 'POST') return this.serveBody(request, out, bytes, undefined);
    const reading = bytes && (await readBody(request, bytes));
    if (reading?.fault === 'nodes' || reading?.fault === 'names')
      return writeRefusal(request, out, 413, errorResponse(undefined, INVALID_REQUEST, reading.message));
    const body = reading?.value === undefined ? undefined : withObjectArguments(reading.value);
    if (request.exchange) request.exchange.client = requestClient(raw.headers, body);
    return Operation.serve(this.deps, raw, body, async (operation) => {
      request.operation = operation;
      // The SDK words the error of a body that is not JSON.
      const isRefused = reading?.fault !== undefined && body !== undefined;
      if (isRefused) writeRefusal(request, out, 400, errorResponse(body, INVALID_REQUEST, reading.message));
      else await this.serveBody(request, out, bytes, body);
      if (out.statusCode >= 500) operation?.ended(String(out.statusCode));
    });
  }

  private async serveBody(
    request: AdmittedRequest,
    out: ServerResponse,
    bytes: Buffer | undefined,
    body: Json | undefined,
  ): Promise<void> {
    const { deps } = this;
    const { raw, mcpCaller: principal } = request;
    if (!principal) throw new TypeError('a request reached the MCP endpoint without its caller');
    const disconnected = new AbortSource();
    out.once('close', () => {
      if (!out.writableFinished) disconnected.abort();
    });
    // A stream with a revoked credential ends with a final chunk, unless its client stopped reading.
    onAbort(disconnected.signal, () => out.writableNeedDrain && out.destroy());
    if (Array.isArray(body) && body.length > 1) {
      const refusal = await deps.countCalls(principal, body.length).catch(toToolError);
      if (refusal) return writeJson(out, CATALOGUE[refusal.code].http, JSON.stringify(errorBody(refusal)));
    }
    if (isResponse(body) && deps.elicitation?.deliver(principal, body)) return void out.writeHead(202).end();
    const session = readSession(raw.headers);
    try {
      readView(raw.url);
      for (const id of readCancelledIds(body)) deps.cancellations.cancel({ principal, session, id });
    } catch (error) {
      return writeFailure(request, out, undefined, error);
    }
    const id = readCancellableId(raw.headers, body);
    const untrack = id === undefined ? undefined : deps.cancellations.track({ principal, session, id }, disconnected);
    try {
      await this.answer(request, out, principal, { bytes, body, disconnected });
    } finally {
      untrack?.();
    }
  }

  /** Answers a checked request by the fast path or the SDK. A request that its client cancelled ends without a response. */
  private async answer(
    request: AdmittedRequest,
    out: ServerResponse,
    principal: Principal,
    { bytes, body, disconnected }: { bytes: Buffer | undefined; body: Json | undefined; disconnected: AbortSource },
  ): Promise<void> {
    const { deps } = this;
    const { raw } = request;
    const { signal } = disconnected;
    const fast = signal.aborted ? undefined : await this.answerFast(request, body, signal);
    // The protocol wants no response to a cancelled request, and HTTP wants one: an event stream without events.
    if (signal.aborted) request.operation?.ended('cancelled');
    if (signal.aborted) return void out.writeHead(200, { 'content-type': 'text/event-stream' }).end();
    if (fast !== undefined) return writeJson(out, 200, fast);
    let leave: (() => void) | undefined;
    try {
      // SDKs open the stream of a session at once, whether they wait for anything or not.
      if (opensStream(raw, body))
        leave = deps.streams.enter(principal, () => disconnected.abort(), raw.method === 'GET');
      const web = toWebRequest(raw, raw.url ?? MCP_PATH, bytes, body, signal);
      const { exchange = { project: {} }, operation } = request;
      const features = requestFeatures(raw.headers, body);
      const authInfo = new RequestContext(principal, exchange, features, operation).toAuthInfo();
      const listened = deps.subscriptions && readListened(body);
      const session = deps.sessions && readStreamSession(raw);
      const respond = (parsedBody: Json | undefined) => this.respond(web, { authInfo, parsedBody });
      const client = { principal, exchange: request.exchange, signal };
      const response = session
        ? await this.openStream({ principal, id: session }, raw.headers, signal)
        : listened
          ? await this.listen(client, listened, body, respond)
          : await respond(body);
      await request.operation?.refused(response);
      const opened = response.ok && !response.headers.has('mcp-session-id') ? newSessionId(body) : undefined;
      await writeWebResponse(response, out, opened === undefined ? {} : { 'mcp-session-id': opened });
    } catch (error) {
      if (!isToolError(error) || out.headersSent) throw error;
      writeFailure(request, out, body, error);
    } finally {
      leave?.();
    }
  }

  /** Opens the stream of a 2025 client. @throws ToolError QUEUE_FULL, SERVICE_UNAVAILABLE */
  private openStream(session: McpSession, headers: IncomingHttpHeaders, signal: AbortSignal): Promise<Response> {
    const { deps, bus } = this;
    const find = (address: string) => findSubscribable(deps, session.principal, address);
    return deps.sessions!.open(session, { headers, signal, bus, find });
  }

  /**
   * Answers a request to listen to resources, reduced to those that the caller may read.
   * @throws ToolError as `selectReadable`
   */
  private async listen(
    client: { principal: Principal; exchange: Exchange | undefined; signal: AbortSignal },
    named: string[],
    body: Json | undefined,
    respond: (body: JsonObject) => Promise<Response>,
  ): Promise<Response> {
    const { deps } = this;
    const { principal } = client;
    const addresses = await selectReadable(deps, client, named);
    const attach: Parameters<ListenBus['opening']>[0] = (listener) =>
      deps.subscriptions!.add({
        principal,
        addresses,
        find: (address) => findSubscribable(deps, principal, address),
        onUpdated: (uri) => listener({ kind: 'resource_updated', uri }),
      });
    return this.bus.opening(attach, () => respond(withListened(body, addresses)));
  }
}

/** Writes a JSON-RPC error without the SDK. */
function writeRefusal({ operation }: AdmittedRequest, out: ServerResponse, status: number, response: RpcError): void {
  operation?.answered(response);
  writeJson(out, status, JSON.stringify(response));
}

/** Writes a failure as a JSON-RPC error. */
function writeFailure(request: AdmittedRequest, out: ServerResponse, body: Json | undefined, error: unknown): void {
  const { message, code } = toToolError(error);
  writeRefusal(request, out, CATALOGUE[code].http, errorResponse(body, SERVER_ERROR, message));
}

/** Whether a request opens a stream that lasts until its client disconnects: GET in 2025, `subscriptions/listen` in 2026. */
function opensStream({ method }: IncomingMessage, body: Json | undefined): boolean {
  return method === 'GET' || (isJsonObject(body) && body['method'] === 'subscriptions/listen');
}

/** Whether a body is a JSON-RPC response; a client sends one only when the server asked it something. */
function isResponse(body: Json | undefined): body is JsonObject {
  return isJsonObject(body) && body['method'] === undefined && ('result' in body || 'error' in body);
}
