import type { IncomingMessage, ServerResponse } from 'node:http';
import {
  createMcpHandler,
  INVALID_REQUEST,
  InMemoryServerEventBus,
  type McpHttpHandler,
} from '@modelcontextprotocol/server';
import {
  errorBody,
  inexactNumber,
  inexactNumberMessage,
  isJsonObject,
  isNestedTooDeep,
  isToolError,
  MAX_BODY_DEPTH,
  toToolError,
  type Json,
  type JsonObject,
  type Principal,
} from '@toolfleet/contracts';
import { beginTrace, type TraceCarrier } from '@toolfleet/telemetry';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { challenge, protectedResourceMetadata } from '../../auth/challenge.js';
import { sessionFor } from './elicitation.js';
import { fastAnswer } from './fast-answers.js';
import { plainRequest } from './fast-path.js';
import { serverFor, type DoorParts } from './handlers.js';
import { LegacySessions } from './legacy-sessions.js';
import type { McpDoorDeps, McpDoorOptions } from './mcp-ports.js';
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
  deps: McpDoorDeps,
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
      handler: (request, reply) => {
        const work = () => serve(request, reply, { parts, handler, ...(sessions ? { sessions } : {}) });
        // A GET streams for as long as its session lives: no step of anything.
        return request.method === 'POST' ? beginTrace('mcp request', carrierOf(request), work) : work();
      },
    });
    for (const url of METADATA_PATHS) {
      scope.get(url, (request, reply) =>
        reply.send(protectedResourceMetadata(resourceUrl(request.raw, options), options.issuer)),
      );
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

interface Serving {
  parts: DoorParts;
  handler: McpHttpHandler;
  sessions?: LegacySessions;
}

const carrierOf = ({ headers }: FastifyRequest): TraceCarrier => ({
  get: (name) => (typeof headers[name] === 'string' ? headers[name] : undefined),
});

async function serve(
  request: FastifyRequest,
  reply: FastifyReply,
  { parts, handler, sessions }: Serving,
): Promise<void> {
  const { deps, options } = parts;
  const { raw } = request;
  reply.hijack();
  const refusal = originFault(raw.headers, raw.socket.localAddress, {
    allowedHosts: options.allowedHosts ?? [],
    allowedOrigins: options.allowedOrigins ?? [],
  });
  if (refusal) return answer(reply.raw, 403, { jsonrpc: '2.0', error: { code: -32_000, message: refusal }, id: null });

  let principal: Principal;
  try {
    principal = await deps.authenticate(raw.rawHeaders);
  } catch (error) {
    return refuse(raw, reply.raw, error, options);
  }
  const gone = new AbortController();
  reply.raw.once('close', () => {
    if (!reply.raw.writableFinished) gone.abort();
  });
  try {
    const body = parsedBody(request);
    const fault = faultOf(request, body);
    if (fault !== undefined) return answer(reply.raw, 400, invalidRequest(body, fault));
    if (isAnswer(body) && deps.elicitation?.deliver(principal, body)) return void reply.raw.writeHead(202).end();
    const plain = plainRequest(raw.headers, body);
    const quick = plain && (await fastAnswer(parts, principal, plain, gone.signal));
    if (quick !== undefined) return write(reply.raw, 200, quick);
    const web = webRequest(raw, request.body as Buffer | undefined, body, gone.signal);
    const call = { authInfo: authInfoOf(principal), ...(body === undefined ? {} : { parsedBody: body }) };
    const response = (await sessions?.serve(web, call)) ?? (await handler.fetch(web, call));
    const session = response.ok && deps.elicitation && !sessions ? sessionFor(body) : undefined;
    await writeWebResponse(response, reply.raw, session === undefined ? {} : { 'mcp-session-id': session });
  } catch (error) {
    deps.onFault?.(error);
    if (!reply.raw.headersSent)
      answer(reply.raw, 500, { jsonrpc: '2.0', error: { code: -32_603, message: 'Internal error' }, id: null });
    else reply.raw.destroy();
  }
}

/** 401 carries the challenge that leads an OAuth client to the metadata; everything else is the plain error body. */
function refuse(request: IncomingMessage, response: ServerResponse, error: unknown, options: McpDoorOptions): void {
  const known = toToolError(error);
  const status = isToolError(error) ? known.entry.http : 500;
  if (status === 401) {
    const resource = new URL(resourceUrl(request, options));
    response.setHeader('WWW-Authenticate', challenge(`${resource.origin}${METADATA_PATHS[1]}`));
  }
  answer(response, status, isToolError(error) ? errorBody(known) : { error: 'Internal error', code: 'INTERNAL' });
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
  const id = isJsonObject(body) ? body['id'] : undefined;
  return {
    jsonrpc: '2.0',
    id: typeof id === 'string' || typeof id === 'number' ? id : null,
    error: { code: INVALID_REQUEST, message },
  };
}

/** A JSON-RPC response, which only a client sends that was asked something. */
function isAnswer(body: Json | undefined): body is JsonObject {
  return isJsonObject(body) && body['method'] === undefined && ('result' in body || 'error' in body);
}

function parsedBody(request: FastifyRequest): Json | undefined {
  return request.raw.method === 'POST' ? parseBody(request.body as Buffer | undefined) : undefined;
}

function resourceUrl(request: IncomingMessage, options: McpDoorOptions): string {
  const base = options.publicUrl ?? `http://${request.headers.host ?? 'localhost'}`;
  return `${base.replace(/\/$/, '')}${DOOR_PATH}`;
}
