import type { IncomingMessage, ServerResponse } from 'node:http';
import {
  createMcpHandler,
  INVALID_REQUEST,
  InMemoryServerEventBus,
  type McpHttpHandler,
} from '@modelcontextprotocol/server';
import {
  isJsonObject,
  isToolError,
  ToolError,
  toToolError,
  type Json,
  type JsonObject,
  type Principal,
} from '@toolfleet/contracts';
import { inexactNumber, inexactNumberMessage, isNestedTooDeep, MAX_BODY_DEPTH } from '@toolfleet/contracts/json-text';
import { errorBody } from '@toolfleet/contracts/wire';
import type { Clock } from '@toolfleet/resilience';
import { beginTrace, type TraceCarrier } from '@toolfleet/telemetry';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { challenge, protectedResourceMetadata } from '../auth/credential.js';
import { hostName, LOOPBACK_NAMES } from '../auth/loopback.js';
import { takeOverReply } from '../http/connections.js';
import { leaveUnread } from '../http/request-body.js';
import { sessionFor } from './elicitation.js';
import { fastAnswer } from './fast-answers.js';
import { plainRequest } from './fast-path.js';
import { serverFor, type DoorParts } from './handlers.js';
import { LegacySessions } from './legacy-sessions.js';
import type { McpEndpointDeps, McpDoorOptions } from './mcp-ports.js';
import { originFault } from './origin-check.js';
import { authInfoOf, principalOf } from './principal-of.js';
import { ToolCatalogView } from './tool-catalog.js';
import { parseBody, webRequest, writeWebResponse } from './web-bridge.js';

/** Path of the door, and of the metadata an OAuth client reads first (RFC 9728 section 3.1). */
const DOOR_PATH = '/mcp';
const METADATA_PATHS = ['/.well-known/oauth-protected-resource', `/.well-known/oauth-protected-resource${DOOR_PATH}`];

/** Ends the door's streams. */
export interface McpDoor {
  close(): Promise<void>;
}

/**
 * Mounts the MCP door on the gateway's HTTP server: one stateless endpoint for both protocol eras, so that any replica
 * answers any request. Call it before the server listens.
 */
export async function mountMcpDoor(
  fastify: FastifyInstance,
  deps: McpEndpointDeps,
  options: McpDoorOptions,
): Promise<McpDoor> {
  const parts: DoorParts = {
    deps,
    options,
    catalog: new ToolCatalogView(options.extras?.tools.map(({ definition }) => definition)),
  };
  const report = (error: unknown): void => deps.onFault?.(error);
  const bus = new InMemoryServerEventBus(report);
  const handler = createMcpHandler((request) => serverFor(parts, principalOf(request.authInfo), request), {
    bus,
    maxRequestBodySize: options.maxBodyBytes,
    legacy: 'stateless',
  });
  options.extras?.announce(handler.notify);
  const sessions = options.extras?.legacySessions ? new LegacySessions(parts) : undefined;
  const stopListening = deps.onCatalogChanged?.(() => handler.notify.toolsChanged());

  await fastify.register(async (scope) => {
    // The body stays as bytes: the SDK wants to see what is not JSON, and answers it in its own terms.
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser('*', { parseAs: 'buffer', bodyLimit: options.maxBodyBytes }, (_request, body, done) =>
      done(null, body),
    );
    scope.route({
      method: ['GET', 'POST', 'DELETE'],
      url: DOOR_PATH,
      config: { admitsCallers: true },
      // Before the body is read: a stranger's costs nothing.
      onRequest: (request, reply) => admit(request, reply, parts),
      handler: (request, reply) => {
        const serving = { parts, handler, ...(sessions ? { sessions } : {}) };
        const work = () => takeOverReply(reply, (raw) => serve(request, raw, serving), report);
        // A GET streams for as long as its session lives: no step of anything.
        return request.method === 'POST' ? beginTrace('mcp request', carrierOf(request), work) : work();
      },
    });
    for (const url of METADATA_PATHS) {
      scope.get(url, (request, reply) => {
        const resource = resourceUrl(request.raw, options);
        if (resource !== undefined) return reply.send(protectedResourceMetadata(resource, options.issuer));
        const error = new ToolError('NOT_FOUND', { message: 'No metadata: this gateway has no GATEWAY_PUBLIC_URL' });
        return reply.code(404).send(errorBody(error));
      });
    }
  });
  return {
    close: async () => {
      stopListening?.();
      await sessions?.close();
      await handler.close();
    },
  };
}

/** A request whose caller `admit` has proved. */
type AdmittedRequest = FastifyRequest & { mcpCaller?: Principal };

interface Serving {
  parts: DoorParts;
  handler: McpHttpHandler;
  sessions?: LegacySessions;
}

const carrierOf = ({ headers }: FastifyRequest): TraceCarrier => ({
  get: (name) => (typeof headers[name] === 'string' ? headers[name] : undefined),
});

/** Proves the caller of a request by its headers, or answers it. */
async function admit(
  request: AdmittedRequest,
  reply: FastifyReply,
  { deps, options }: DoorParts,
): Promise<FastifyReply | undefined> {
  const { raw } = request;
  const refusal = originFault(raw.headers, raw.socket.localAddress, {
    allowedHosts: options.allowedHosts ?? [],
    allowedOrigins: options.allowedOrigins ?? [],
  });
  if (refusal !== undefined) {
    return refuse(request, reply, deps.clock, 403, {
      jsonrpc: '2.0',
      error: { code: -32_000, message: refusal },
      id: null,
    });
  }
  try {
    request.mcpCaller = await deps.authenticate(raw.rawHeaders);
    return undefined;
  } catch (error) {
    const known = toToolError(error);
    if (!isToolError(error)) deps.onFault?.(error);
    if (known.code === 'UNAUTHENTICATED') void reply.header('WWW-Authenticate', challenge(metadataUrl(raw, options)));
    const body = isToolError(error) ? errorBody(known) : { error: 'Internal error', code: 'INTERNAL' };
    return refuse(request, reply, deps.clock, known.entry.http, body);
  }
}

function refuse(
  { raw }: FastifyRequest,
  reply: FastifyReply,
  clock: Clock,
  status: number,
  body: object,
): FastifyReply {
  leaveUnread(raw, clock);
  return reply.code(status).header('content-type', 'application/json').send(JSON.stringify(body));
}

async function serve(request: AdmittedRequest, out: ServerResponse, serving: Serving): Promise<void> {
  const { parts, handler, sessions } = serving;
  const { deps } = parts;
  const { raw, mcpCaller: principal } = request;
  if (!principal) throw new TypeError('a request reached the MCP door without its caller');
  const gone = new AbortController();
  out.once('close', () => {
    if (!out.writableFinished) gone.abort();
  });
  // A stream whose credential is void ends orderly, unless its client takes nothing.
  gone.signal.addEventListener('abort', () => out.writableNeedDrain && out.destroy(), { once: true });
  const body = parsedBody(request);
  const fault = faultOf(request, body);
  if (fault !== undefined) return answer(out, 400, invalidRequest(body, fault));
  const messages = Array.isArray(body) ? body.length : 1;
  if (messages > 1 && deps.countCalls) {
    const refusal = await deps.countCalls(principal, messages).catch(toToolError);
    if (refusal) return answer(out, refusal.entry.http, errorBody(refusal));
  }
  if (isAnswer(body) && deps.elicitation?.deliver(principal, body)) return void out.writeHead(202).end();
  const plain = plainRequest(raw.headers, body);
  const quick = plain && (await fastAnswer(parts, principal, plain, gone.signal));
  if (quick !== undefined) return write(out, 200, quick);
  const leave = opensStream(raw, body) ? enterStream(deps, principal, out, body, () => gone.abort()) : () => undefined;
  if (!leave) return;
  try {
    const web = webRequest(raw, DOOR_PATH, request.body as Buffer | undefined, body, gone.signal);
    const call = { authInfo: authInfoOf(principal), ...(body === undefined ? {} : { parsedBody: body }) };
    const response = (await sessions?.serve(web, call)) ?? (await handler.fetch(web, call));
    const session = response.ok && deps.elicitation && !sessions ? sessionFor(body) : undefined;
    await writeWebResponse(response, out, session === undefined ? {} : { 'mcp-session-id': session });
  } finally {
    leave();
  }
}

/** Whether a request opens a stream that lasts until its client leaves: a GET of 2025, `subscriptions/listen` of 2026. */
function opensStream({ method }: IncomingMessage, body: Json | undefined): boolean {
  return method === 'GET' || (isJsonObject(body) && body['method'] === 'subscriptions/listen');
}

/** A place for the stream; undefined when there is none, which is answered. */
function enterStream(
  { streams }: McpEndpointDeps,
  principal: Principal,
  out: ServerResponse,
  body: Json | undefined,
  onVoid: () => void,
): (() => void) | undefined {
  try {
    return streams?.enter(principal, onVoid) ?? (() => undefined);
  } catch (error) {
    const { message, entry } = toToolError(error);
    answer(out, entry.http, { jsonrpc: '2.0', id: idOf(body), error: { code: -32_000, message } });
    return undefined;
  }
}

function answer(response: ServerResponse, status: number, body: object): void {
  write(response, status, JSON.stringify(body));
}

function write(response: ServerResponse, status: number, json: string): void {
  response
    .writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(json) })
    .end(json);
}

/** What is wrong with a body that is JSON. The SDK, like every recursion, ends some thousand levels down. */
function faultOf({ body: bytes }: FastifyRequest, body: Json | undefined): string | undefined {
  if (!Buffer.isBuffer(bytes) || body === undefined) return undefined;
  if (isNestedTooDeep(body, bytes.length)) return `The request is nested deeper than ${MAX_BODY_DEPTH} levels`;
  const inexact = inexactNumber(bytes.toString('utf8'));
  return inexact === undefined ? undefined : inexactNumberMessage(inexact);
}

function invalidRequest(body: Json | undefined, message: string): JsonObject {
  return { jsonrpc: '2.0', id: idOf(body), error: { code: INVALID_REQUEST, message } };
}

function idOf(body: Json | undefined): string | number | null {
  const id = isJsonObject(body) ? body['id'] : undefined;
  return typeof id === 'string' || typeof id === 'number' ? id : null;
}

/** A JSON-RPC response, which only a client sends that was asked something. */
function isAnswer(body: Json | undefined): body is JsonObject {
  return isJsonObject(body) && body['method'] === undefined && ('result' in body || 'error' in body);
}

function parsedBody(request: FastifyRequest): Json | undefined {
  return request.raw.method === 'POST' ? parseBody(request.body as Buffer | undefined) : undefined;
}

/**
 * The address of this resource (RFC 9728 section 3.3). A `Host` header is never repeated: whoever sends it could make a client
 * believe that the fleet is elsewhere. In development it is the loopback name and the port that the request came to.
 */
function resourceUrl({ headers, socket }: IncomingMessage, options: McpDoorOptions): string | undefined {
  if (options.publicUrl !== undefined) return `${options.publicUrl.replace(/\/$/, '')}${DOOR_PATH}`;
  if (!options.development) return undefined;
  const named = hostName(headers.host);
  const name = named !== undefined && LOOPBACK_NAMES.has(named) ? named : 'localhost';
  return `http://${name}:${socket.localPort}${DOOR_PATH}`;
}

/** Where an OAuth client reads the metadata (RFC 9728 section 3.1). */
function metadataUrl(request: IncomingMessage, options: McpDoorOptions): string | undefined {
  const resource = resourceUrl(request, options);
  return resource === undefined ? undefined : `${new URL(resource).origin}${METADATA_PATHS[1]}`;
}
