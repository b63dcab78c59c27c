import { createHash, createPublicKey, verify, type JsonWebKey } from 'node:crypto';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { EgressClient } from '@toolfleet/egress';
import type { Clock } from '@toolfleet/resilience';
import { VariableExpander } from '@toolfleet/service';
import { z } from 'zod';
import { callMcpTool } from '../src/call-mcp-tool.js';
import { HeldCalls } from '../src/held-calls.js';
import { readTarget } from '../src/mcp-target.js';
import { POOL_LIMITS, SessionPool, type PoolLimits } from '../src/session-pool.js';

/** A request at the token endpoint. */
interface TokenRequest {
  headers: IncomingMessage['headers'];
  form: URLSearchParams;
}
/** A response of the authorization server. */
type TokenAnswer = { status?: number; body: unknown; headers?: Record<string, string> };

/** An MCP server with one tool and, on the same port, the authorization server that protects it. */
export class ProtectedServer {
  readonly requests: TokenRequest[] = [];
  /** Authorization headers that were accepted. */
  readonly admitted: string[] = [];
  readonly valid = new Set<string>();
  /** Headers of requests for metadata. */
  readonly metadataRequests: IncomingMessage['headers'][] = [];
  answer: (request: TokenRequest) => TokenAnswer | Promise<TokenAnswer> = () => this.issue();
  /** Refuses a request to the MCP server; undefined accepts it. */
  refuse: (request: IncomingMessage) => Promise<TokenAnswer | undefined> | TokenAnswer | undefined = (request) =>
    this.valid.has(bearerToken(request)) ? undefined : this.challenge();
  private issued = 0;

  private constructor(
    private readonly server: Server,
    readonly origin: string,
  ) {}

  static async start(): Promise<ProtectedServer> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const made = new ProtectedServer(server, `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    const mcp = toNodeHandler(createMcpHandler(() => echoServer()));
    server.on('request', (request, response) => {
      void (async () => {
        const answer = await made.serve(request);
        if (!answer) return mcp(request, response);
        response.writeHead(answer.status ?? 200, { 'content-type': 'application/json', ...answer.headers });
        response.end(typeof answer.body === 'string' ? answer.body : JSON.stringify(answer.body));
      })();
    });
    return made;
  }

  get url(): string {
    return `${this.origin}/mcp`;
  }

  /** A new valid token. */
  issue(more: Record<string, unknown> = {}): TokenAnswer {
    const token = `token-${(this.issued += 1)}-of-the-suite`;
    this.valid.add(token);
    return { body: { access_token: token, token_type: 'Bearer', expires_in: 3_600, ...more } };
  }

  challenge(scheme = 'Bearer'): TokenAnswer {
    const metadata = `${this.origin}/.well-known/oauth-protected-resource/mcp`;
    return { status: 401, body: {}, headers: { 'www-authenticate': `${scheme} resource_metadata="${metadata}"` } };
  }

  stop(): Promise<void> {
    this.server.closeAllConnections();
    return new Promise((resolve) => this.server.close(() => resolve()));
  }

  private async serve(request: IncomingMessage): Promise<TokenAnswer | undefined> {
    const { origin } = this;
    if (request.url === '/token') {
      const received = { headers: request.headers, form: new URLSearchParams(await readText(request)) };
      this.requests.push(received);
      return this.answer(received);
    }
    if (request.url?.startsWith('/.well-known/')) {
      this.metadataRequests.push(request.headers);
      if (request.url.includes('protected-resource')) {
        return { body: { resource: this.url, authorization_servers: [origin], scopes_supported: ['read'] } };
      }
      return {
        body: {
          issuer: origin,
          authorization_endpoint: `${origin}/authorize`,
          token_endpoint: `${origin}/token`,
          response_types_supported: ['code'],
        },
      };
    }
    const refusal = await this.refuse(request);
    if (!refusal) this.admitted.push(String(request.headers.authorization));
    return refusal;
  }
}

function echoServer(): McpServer {
  const server = new McpServer({ name: 'protected', version: '1.0.0' });
  server.registerTool('echo', { description: 'Echoes.', inputSchema: z.object({}) }, () => ({
    content: [{ type: 'text', text: 'hello' }],
  }));
  return server;
}

/** Calls `echo` as the executor does. */
export function createCaller(
  server: ProtectedServer,
  clock: Clock,
  {
    options,
    env = {},
    limits = POOL_LIMITS,
  }: { options: Record<string, unknown>; env?: Record<string, string>; limits?: PoolLimits },
) {
  const egress = new EgressClient({ allowlist: [], allowedEndpoints: [server.origin] });
  const expander = new VariableExpander([], env);
  const parts = { egress, clock, expand: (value: string) => expander.expand(value), maxResponseBytes: 100_000 };
  const pool = new SessionPool({ ...parts, allowStdio: false, version: '0' }, undefined, limits);
  const target = readTarget('protected', 'streamable-http', server.url, JSON.parse(JSON.stringify(options)));
  const message = {
    call_id: 'c',
    attempt: 1,
    fence: 1,
    journalled: false,
    tool: 'protected_echo',
    revision: '1',
    binding: { kind: 'mcp', server: 'protected', transport: 'streamable-http', remoteName: 'echo', url: server.url },
    arguments: {},
    context: { tenant_id: 't' },
  } as const;
  const call = async () => {
    const signal = new AbortController().signal;
    const outcome = await callMcpTool(
      message,
      target,
      { pool, clock, held: new HeldCalls(clock) },
      {
        remainingMs: 20_000,
        signal,
      },
    );
    return outcome.reply;
  };
  return {
    call,
    pool,
    close: async () => {
      await pool.close();
      await egress.close();
    },
  };
}

/** The token of a request, without its scheme. */
export const bearerToken = (request: Pick<IncomingMessage, 'headers'>): string =>
  String(request.headers.authorization).replace(/^\w+ /, '');

/** Header and claims of a JWT with a signature that is right for the key (ES256). @throws Error when it is not */
export function verified(
  jwt: string,
  jwk?: JsonWebKey,
): { header: Record<string, unknown>; claims: Record<string, unknown> } {
  const [head = '', body = '', signature = ''] = jwt.split('.');
  const read = (part: string) => JSON.parse(Buffer.from(part, 'base64url').toString()) as Record<string, unknown>;
  const key = createPublicKey({ key: (jwk ?? read(head)['jwk']) as JsonWebKey, format: 'jwk' });
  const isRight = verify(
    'sha256',
    Buffer.from(`${head}.${body}`),
    { key, dsaEncoding: 'ieee-p1363' },
    Buffer.from(signature, 'base64url'),
  );
  if (!isRight) throw new Error('wrong signature');
  return { header: read(head), claims: read(body) };
}

/** `ath` of a proof (RFC 9449 4.2). */
export const hashToken = (token: string): string => createHash('sha256').update(token).digest('base64url');

async function readText(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}
